// Reading again and again, for as long as somebody looks.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, Refusal } from "./api";

export interface Live<T> {
  data: T | undefined;
  error: Refusal | undefined;
  loading: boolean;
  again: () => void;
}

/** Reads a path at once and every so often; what was read before stays while the node is out of
 * reach. A page in the background asks for nothing. */
export function useLive<T>(path: string | undefined, every = 2000): Live<T> {
  return useReading<T>(path, (signal) => get<T>(path!, signal), every);
}

/** useLive for whatever takes more than one request. Of two readings at once the one
 * that began later counts. What is costly to read rests for some times as long as it took. */
export function useReading<T>(key: string | undefined, read: (signal: AbortSignal) => Promise<T>, every = 2000, rest = 0): Live<T> {
  const [state, set] = useState<{ key?: string; data?: T; error?: Refusal }>({});
  const kick = useRef<() => void>(() => {});
  const reads = useRef(read);
  reads.current = read;
  useEffect(() => {
    if (!key) return;
    const life = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let turn = 0;
    let told = 0; // the turn of the newest answer
    const once = async () => {
      clearTimeout(timer);
      if (document.hidden) return;
      const mine = ++turn;
      const began = performance.now();
      let wait = every;
      try {
        const data = await reads.current(life.signal);
        if (life.signal.aborted || mine < told) return;
        told = mine;
        set({ key, data });
        wait = Math.max(wait, rest * (performance.now() - began));
      } catch (cause) {
        if (life.signal.aborted || mine < told) return;
        told = mine;
        const error = cause instanceof Refusal ? cause : new Refusal(0, "UNKNOWN", String(cause));
        set((before) => (before.key === key ? { ...before, error } : { key, error }));
        if (error.status === 429 || error.status === 503) wait = Math.max(wait, 3000);
      }
      clearTimeout(timer);
      if (every > 0) timer = setTimeout(once, wait);
    };
    kick.current = once;
    const shown = () => !document.hidden && void once();
    document.addEventListener("visibilitychange", shown);
    void once();
    return () => {
      life.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [key, every, rest]);
  const again = useCallback(() => kick.current(), []);
  const current = state.key === key;
  return {
    data: current ? state.data : undefined,
    error: current ? state.error : undefined,
    loading: !current || (!state.data && !state.error),
    again,
  };
}

const tickers = new Set<() => void>();
let ticking: ReturnType<typeof setInterval> | undefined;

/** The time, told every second to all who show how long ago something was. */
export function useNow(): number {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    const tick = () => set(Date.now());
    tickers.add(tick);
    ticking ??= setInterval(() => tickers.forEach((f) => f()), 1000);
    return () => {
      tickers.delete(tick);
      if (tickers.size === 0) {
        clearInterval(ticking);
        ticking = undefined;
      }
    };
  }, []);
  return now;
}

/** A call that a button makes: whether it is under way, and what it was refused with. */
export function useCall(): { busy: boolean; error: Refusal | undefined; call: (f: () => Promise<unknown>) => Promise<void>; clear: () => void } {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Refusal>();
  const call = async (f: () => Promise<unknown>) => {
    setBusy(true);
    setError(undefined);
    try {
      await f();
    } catch (cause) {
      setError(cause instanceof Refusal ? cause : new Refusal(0, "UNKNOWN", String(cause)));
    } finally {
      setBusy(false);
    }
  };
  return { busy, error, call, clear: () => setError(undefined) };
}
