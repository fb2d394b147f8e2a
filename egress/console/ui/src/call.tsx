// The title of an action, and times relative to its acceptance.
import { link } from "./route";
import type { Called, ModelUse } from "./types";
import { Copy, millis } from "./ui";

type Titled = Called & ModelUse & { id: string; kind: string; task_type?: string };

/** What an action called: method, host and path, or the agent of a run, or the model of a chat. Without
 * them, as for a sensitive run, it is the id. */
export function titleOf(a: Titled): string {
  if (a.kind === "run") return a.task_type || a.agent || a.id;
  if (a.kind === "chat" && a.model) return a.model;
  if (a.kind === "rule") return "Change of the traffic rules";
  if (!a.method || !a.host) return a.id;
  const more = (a.calls ?? 0) > 1 ? ` + ${a.calls! - 1} more` : "";
  return `${a.method} ${a.host}${a.path ?? ""}${more}`;
}

/** The links of a row to its action: the title, and the id beneath it. */
export function CallLink({ a, to }: { a: Titled; to: string }) {
  const title = titleOf(a);
  const href = link(to, a.id);
  if (title === a.id) return <a class="mono id" href={href}>{a.id}</a>;
  return (
    <>
      <a class="call" href={href} title={title}>
        {title}
      </a>
      <a class="mono id sub" href={href} tabIndex={-1}>
        {a.id}
      </a>
    </>
  );
}

/** The title of the page of one action, with its id. */
export function CallTitle({ a }: { a: Titled }) {
  const title = titleOf(a);
  if (title === a.id) return <h1 class="mono id">{a.id}</h1>;
  return (
    <>
      <h1 class="mono">{title}</h1>
      <div class="row">
        <span class="mono id dim">{a.id}</span>
        <Copy label="Copy id" text={() => a.id} />
      </div>
    </>
  );
}

/** The target of an evidence record's call, without its query; "" if the record has none. */
export function targetOf(payload: unknown): string {
  const p = (payload ?? {}) as { target?: unknown; request_fingerprint?: unknown };
  const target = p.target ?? p.request_fingerprint;
  return typeof target === "string" ? target.split("?", 1)[0]! : "";
}

/** A time in milliseconds, with the fraction that Date drops. */
export function instant(at: string): number {
  const fraction = /\.\d{3}(\d+)/.exec(at);
  return Date.parse(at) + (fraction ? Number(`0.${fraction[1]}`) : 0);
}

export function offset(ms: number): string {
  const s = ms / 1000;
  if (ms <= 0) return "+0 ms";
  if (s < 120) return "+" + millis(ms);
  const min = Math.floor(s / 60);
  if (min < 120) return `+${min} min ${Math.floor(s % 60)} s`;
  const h = Math.floor(min / 60);
  return h < 48 ? `+${h} h ${min % 60} min` : `+${Math.floor(h / 24)} d ${h % 24} h`;
}

/** The time since acceptance, with the exact time on hover. */
export function Offset({ at, from }: { at: string; from: string }) {
  return (
    <time dateTime={at} title={new Date(at).toLocaleString() + "\n" + at}>
      {offset(instant(at) - instant(from))}
    </time>
  );
}
