// Server-sent events over fetch: EventSource cannot send the header that the cookie needs.
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
  /** The log dropped events after the resume position; the stream continues with the next stored one. */
  onGone?: () => void;
}

const longest = 10_000;

/** Resolves when the page is visible, or when the signal aborts. */
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

/** Follows a stream until stop is called. After a restart of the server it resumes after the last
 * event. Status 204 means that the stream is complete. A page in the background closes its
 * connection, because a browser has six for all pages, and resumes when it is visible. */
export function follow({ path, onFrame, onState, onGone }: Follow): () => void {
  const life = new AbortController();
  let last = "";
  void (async () => {
    for (let wait = 250; !life.signal.aborted; ) {
      await looked(life.signal);
      const turn = new AbortController();
      const leave = () => document.hidden && turn.abort();
      document.addEventListener("visibilitychange", leave);
      let whole = false; // the server ended the stream, not the network
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
