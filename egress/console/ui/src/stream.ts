// Server-sent events over fetch: EventSource can send no header, and the cookie counts for
// nothing without ours.
import { headers, read, Refusal } from "./api";

export interface Frame {
  id: string;
  event: string;
  data: string;
}

/** Splits what comes into frames; lines end in CR, LF or both. */
export class Frames {
  private rest = "";
  private id = "";

  push(text: string): Frame[] {
    this.rest += text;
    const out: Frame[] = [];
    for (;;) {
      const end = /\r\n\r\n|\n\n|\r\r/.exec(this.rest);
      if (!end) return out;
      const block = this.rest.slice(0, end.index);
      this.rest = this.rest.slice(end.index + end[0].length);
      const data: string[] = [];
      let event = "message";
      for (const line of block.split(/\r\n|\n|\r/)) {
        const at = line.indexOf(":");
        const name = at < 0 ? line : line.slice(0, at);
        const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
        if (name === "data") data.push(value);
        if (name === "event") event = value;
        if (name === "id") this.id = value;
      }
      if (data.length) out.push({ id: this.id, event, data: data.join("\n") });
    }
  }
}

export type State = "connecting" | "live" | "lost" | "ended";

export interface Follow {
  path: string;
  onFrame: (f: Frame) => void;
  onState: (s: State, why?: Refusal) => void;
  /** What lies behind the place to go on from was dropped: the stream goes on with what is left. */
  onGone?: () => void;
}

const longest = 10_000;

/** Resolves once the page is looked at, or the signal aborts. */
function looked(signal: AbortSignal): Promise<void> {
  return new Promise((go) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      go();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look, { once: true });
    look();
  });
}

/** Follows a stream until stop is called, over restarts of the server: it resumes behind the
 * last event that it was given. 204 says that no more will come. A page in the background holds
 * no connection, of which a browser has six for all of them, and resumes when it is looked at. */
export function follow({ path, onFrame, onState, onGone }: Follow): () => void {
  const life = new AbortController();
  let last = "";
  void (async () => {
    for (let wait = 250; !life.signal.aborted; ) {
      await looked(life.signal);
      const turn = new AbortController();
      const leave = () => document.hidden && turn.abort();
      document.addEventListener("visibilitychange", leave);
      let whole = false; // the server has ended it, and not the way to it
      try {
        const answer = await fetch(path, {
          headers: headers({ Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) }),
          credentials: "same-origin",
          cache: "no-store",
          signal: AbortSignal.any([life.signal, turn.signal]),
        });
        if (answer.status === 204) return onState("ended");
        if (!answer.ok || !answer.body) await read(answer);
        onState("live");
        wait = 250;
        const frames = new Frames();
        const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
        for (;;) {
          const { value, done } = await reader.read();
          if (done) break;
          for (const f of frames.push(value)) {
            if (f.id) last = f.id;
            onFrame(f);
          }
        }
        whole = true;
      } catch (cause) {
        if (life.signal.aborted) return;
        if (turn.signal.aborted) continue;
        const left = cause instanceof Refusal && onGone ? cause.earliest : undefined;
        if (left && left > Number(last) + 1) {
          last = String(left - 1);
          onGone!();
          continue;
        }
        if (cause instanceof Refusal && cause.status >= 400 && cause.status < 500 && cause.status !== 429) {
          return onState("ended", cause);
        }
      } finally {
        document.removeEventListener("visibilitychange", leave);
      }
      if (life.signal.aborted) return;
      if (!whole) onState("lost");
      await new Promise((go) => setTimeout(go, wait + Math.random() * wait));
      wait = Math.min(wait * 2, longest);
    }
  })();
  return () => life.abort();
}
