// Parts that every page about one action uses.
import type { ComponentChildren } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import { get, post, query, Refusal, unreachable } from "../api";
import { instant, Offset } from "../call";
import { type Live as Reading, useCall, useLive } from "../live";
import { asCurl, asExec, type Call, order } from "../repeat";
import { link } from "../route";
import type { State } from "../stream";
import type { Action as View, Evidence, Page } from "../types";
import { Code, Copy, Dialog, Empty, Failure, LiveMark, millis, Time } from "../ui";
import { label, settled } from "../vocabulary";
import { useMay, Who } from "../who";

/** Reads a path repeatedly until the document is final. */
export function useUntil<T>(path: string, done: (doc: T) => boolean, every = 3000): Reading<T> {
  const [rests, rest] = useState(false);
  const view = useLive<T>(path, rests ? 0 : every);
  useEffect(() => rest(!!view.data && done(view.data)), [view.data]);
  return view;
}

/** Reads an action. An unknown outcome can still be resolved, so it is read until then. */
export function useAction(id: string): { path: string; view: Reading<View>; over: boolean } {
  const path = `/v1/actions/${encodeURIComponent(id)}`;
  const view = useUntil<View>(path, (a) => settled(a.status) && (a.status !== "outcome_unknown" || !!a.resolution));
  return { path, view, over: !!view.data && settled(view.data.status) };
}

/** Says whether the event stream is connected. A settled action needs no stream. */
export function Live({ over, state }: { over: boolean; state: State }) {
  return over ? null : <LiveMark error={state === "lost" ? new Refusal(0, unreachable, "") : undefined} word={state === "connecting" ? "connecting" : "live"} />;
}

export function Missing({ error, again, id, all, what = "action" }: { error: Refusal; again: () => void; id: string; all: string; what?: string }) {
  if (error.status !== 404) return <Failure error={error} again={again} />;
  return (
    <Empty title={`There is no ${what} ${id}.`}>
      It may belong to another tenant, or be older than the log's history. <a href={link(all)}>Show all</a>
    </Empty>
  );
}

/** The state of an action, as rows of Facts. */
export function standing(a: View): [string, ComponentChildren][] {
  return [
    ["Kind", <a href={link("actions", "", { kind: a.kind })}>{a.kind + (a.task_type ? ` · ${a.task_type}` : "")}</a>],
    ["Class", a.class],
    ["Caller", a.caller && <a href={link("actions", "", { caller: a.caller })}>{a.caller}</a>],
    ["Agent", a.kind !== "run" && a.agent && <a href={link("actions", "", { agent: a.agent })}>{a.agent}</a>],
    ["HTTP status", a.attempts.findLast((t) => t.status)?.status],
    ["Accepted", <Time at={a.created} />],
    ["Settled", a.settled && <Time at={a.settled} />],
    ["Duration", a.settled && millis(instant(a.settled) - instant(a.created))],
    ["Deadline", (!a.settled || a.status === "expired") && a.deadline && <Time at={a.deadline} />],
    ["Not before", a.not_before && <Time at={a.not_before} />],
    ["Waiting for", a.waiting && <>{label(a.waiting.for)} {a.waiting.until && <Time at={a.waiting.until} />}</>],
    ["Code", a.code && <code>{a.code}</code>],
    ["Message", a.message],
  ];
}

/** The evidence of an action. */
export function Records({ id, again, from }: { id: string; again: boolean; from: string }) {
  const may = useMay("evidence:read");
  const list = useLive<Page<Evidence>>(may ? "/v1/evidence" + query({ action_id: id, limit: 50 }) : undefined, again ? 0 : 3000);
  useEffect(() => list.again(), [again, list.again]);
  if (!may) return null;
  return (
    <section class="card" aria-labelledby="h-evidence">
      <h2 id="h-evidence">Evidence</h2>
      <Failure error={list.error} />
      {list.data?.items.length === 0 && <p class="dim">None yet.</p>}
      <ul class="plain">
        {list.data?.items.map((r) => (
          <li key={r.id}>
            <details>
              <summary>
                {r.kind} {r.code && <code>{r.code}</code>} <Offset at={r.time} from={from} />
              </summary>
              <Code value={r.payload} />
            </details>
          </li>
        ))}
      </ul>
      {list.data && list.data.items.length > 0 && <a href={link("evidence", "", { action_id: id })}>All evidence of this action</a>}
    </section>
  );
}

/** Cancels after a confirmation. */
export function Cancel({ a, may, again }: { a: View; may: boolean; again: () => void }) {
  const { busy, error, call, clear } = useCall();
  const [asked, ask] = useState(false);
  const cancel = () =>
    call(async () => {
      await post(`/v1/actions/${encodeURIComponent(a.id)}/cancel`);
      ask(false);
    }).then(again);
  return (
    <>
      <button type="button" disabled={!may || busy || a.cancel_requested} onClick={() => (clear(), ask(true))}>
        {a.cancel_requested ? "Cancel requested" : "Cancel"}
      </button>
      {asked && (
        <Dialog title="Cancel this action?" onClose={() => ask(false)}>
          <p>If no attempt has started, Weir sends nothing. A running call that is not safe to interrupt finishes, and its outcome stands.</p>
          <Failure error={error} />
          <footer>
            <button type="button" class="danger" disabled={busy} onClick={() => void cancel()}>
              Cancel the action
            </button>
          </footer>
        </Dialog>
      )}
    </>
  );
}

export interface Paid {
  payload: Call & { call?: Call };
}

export function Payload({ a }: { a: View }) {
  const who = useContext(Who);
  const { busy, error, call } = useCall();
  const [doc, set] = useState<Paid>();
  useEffect(() => set(undefined), [a.id]);
  if (!["http", "passthrough", "plan", "run"].includes(a.kind)) return null;
  const read = async () => {
    const got = doc ?? (await get<Paid>(`/v1/actions/${encodeURIComponent(a.id)}/payload`));
    set(got);
    return got;
  };
  const one = (p: Paid) => (a.kind === "http" ? p.payload : p.payload.call);
  const curl = async () => {
    const p = await read();
    if (a.kind === "http") return asCurl(location.origin, "/v1/execute", order(p.payload), who.mode !== "open");
    return asCurl(location.origin, a.kind === "plan" ? "/v1/plans" : "/agents/run/sync", p.payload, who.mode !== "open");
  };
  return (
    <section class="card" aria-labelledby="h-payload">
      <h2 id="h-payload">Payload</h2>
      <div class="row">
        {!doc && (
          <button type="button" class="small" disabled={busy} onClick={() => void call(read)}>
            Show
          </button>
        )}
        {a.kind !== "run" && <Copy label="Copy as curl" text={curl} />}
        {a.kind === "http" && <Copy label="Copy as weir exec" text={async () => asExec(one(await read())!)} />}
      </div>
      <Failure error={error} />
      {doc && <Code value={doc.payload} />}
    </section>
  );
}
