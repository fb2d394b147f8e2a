// What happens to an action or a task, as it comes.
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
  /** The log keeps the stream's beginning, or a part of it, no more. */
  gone: boolean;
  value: T;
}

const together = 80; // ms: what comes within is shown at once

/** Follows a stream from its first event, each once, over restarts of the node: fold says what
 * they come to. Changed is called for those after which there is something else to be read. */
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

/** The newest of a list that grows, and how many went before them. */
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
