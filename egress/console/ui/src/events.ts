// The event stream of an action or a task.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Refusal } from "./api";
import { follow, type State } from "./stream";

export interface Told<E> {
  id: string; // its place in the stream
  doc: E;
}

export interface Stream<T> {
  state: State;
  why: Refusal | undefined;
  /** The log no longer has the start of the stream. */
  gone: boolean;
  value: T;
}

const together = 80; // ms: events within it are shown together

/** Follows a stream from its first event and delivers each event once, also over restarts of the node.
 * fold adds events to the value. changed is called after events that matter. */
export function useStream<T, E>(path: string, empty: T, fold: (value: T, come: Told<E>[]) => T, changed: () => void, matters: (doc: E) => boolean): Stream<T> {
  const [now, set] = useState<Stream<T>>({ state: "connecting", why: undefined, gone: false, value: empty });
  const first = useRef(empty);
  useEffect(() => {
    let newest = 0;
    let come: Told<E>[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = () => {
      const batch = come;
      come = [];
      timer = undefined;
      set((s) => ({ ...s, value: fold(s.value, batch) }));
      if (batch.some((e) => matters(e.doc))) changed();
    };
    set((s) => ({ ...s, value: first.current, gone: false }));
    const stop = follow({
      path: path + "/events",
      onState: (state, why) => set((s) => ({ ...s, state, why })),
      onGone: () => set((s) => ({ ...s, gone: true })),
      onFrame: (f) => {
        if (Number(f.id) <= newest) return;
        newest = Number(f.id);
        come.push({ id: f.id, doc: JSON.parse(f.data) as E });
        timer ??= setTimeout(show, together);
      },
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [path, fold, changed, matters]);
  return now;
}

/** The newest items of a growing list, and the number of dropped ones. */
export interface Newest<T> {
  items: T[];
  dropped: number;
}

export function add<T>({ items, dropped }: Newest<T>, more: T[], most: number): Newest<T> {
  if (more.length === 0) return { items, dropped };
  const all = [...items, ...more];
  return { items: all.slice(-most), dropped: dropped + Math.max(0, all.length - most) };
}

const most = 300; // events on the page, the newest
const none = { items: [], dropped: 0 };
const listed = <E>(list: Newest<Told<E>>, come: Told<E>[]) => add(list, come, most);

/** The newest events of a stream. */
export function useEvents<E>(path: string, changed: () => void, matters: (doc: E) => boolean) {
  const { value, ...rest } = useStream<Newest<Told<E>>, E>(path, none, listed, changed, matters);
  return { ...rest, events: value.items, dropped: value.dropped };
}
