// Repeated reads while the page is visible.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, Refusal } from "./api";

export interface Live<T> {
  data: T | undefined;
  error: Refusal | undefined;
  loading: boolean;
  again: () => void;
}

/** Reads a path now and periodically. While the node is unreachable, the last data stays. A page in
 * the background sends no requests. */
export function useLive<T>(path: string | undefined, every = 2000): Live<T> {
  return useReading<T>(path, (signal) => get<T>(path!, signal), every);
}

const longest = 30_000; // pause behind a costly read, in milliseconds

/** useLive for more than one request. Of two concurrent reads the later one counts. A costly read
 * pauses for rest times its duration, but not longer than half a minute. */
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
    let told = 0; // the turn of the newest response
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
        wait = Math.max(wait, Math.min(rest * (performance.now() - began), longest));
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

/** The current time, updated every second. */
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

/** A call that a button makes: whether it is running, and its error. */
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
