import { useEffect, useRef } from "preact/hooks";
import { get, query } from "../api";
import { useReading } from "../live";
import { link } from "../route";
import { ended, type PushResult, short, type Task } from "../tasks";
import type { Action, ActionEntry, ActionPage } from "../types";
import { Badge, Failure, Time } from "../ui";
import { settled } from "../vocabulary";
import { useMay } from "../who";
import { useUntil } from "./about";

const first = 20;
const most = 200;

/** The pushes of a task, newest first, with the refused ones. A change of news reads them again. */
export function Pushes({ t, news }: { t: Task; news: number }) {
  const may = useMay("actions:read");
  const want = useRef(first);
  const read = (signal: AbortSignal) => get<ActionPage>("/v1/actions" + query({ kind: "push", task: t.id, limit: want.current, count: "true" }), signal);
  const list = useReading(may ? `the pushes of ${t.id}` : undefined, read, ended(t.status) ? 0 : 3000);
  useEffect(() => list.again(), [news, t.pushes, list.again]);
  const items = list.data?.items ?? [];
  const total = list.data?.count?.total ?? items.length;
  return (
    <section class="card" aria-labelledby="h-pushes">
      <h2 id="h-pushes">
        Pushes <span class="dim">{total > 0 && total}</span>
      </h2>
      {!may && <p class="dim">The list needs the scope actions:read. Pushes so far: {t.pushes}.</p>}
      <Failure error={list.error} />
      {list.data && items.length === 0 && <p class="dim">No pushes.</p>}
      <ul class="pushes">
        {items.map((a) => (
          <Push key={a.id} a={a} t={t} />
        ))}
      </ul>
      {items.length < total && (
        <p class="more">
          {items.length < most && (
            <button type="button" class="small" onClick={() => ((want.current = Math.min(most, want.current + first)), list.again())}>
              Older
            </button>
          )}{" "}
          <a href={link("actions", "", { kind: "push", task: t.id })}>Show all as actions</a>
        </p>
      )}
    </section>
  );
}

function Push({ a, t }: { a: ActionEntry; t: Task }) {
  const { data: view, error, again } = useUntil<Action>(`/v1/actions/${encodeURIComponent(a.id)}`, (p) => settled(p.status));
  const status = view?.status ?? a.status;
  const p = view?.result as PushResult | undefined;
  const ref = p?.ref?.replace(/^refs\/heads\//, "");
  const why = p?.reason ?? (status === "succeeded" ? undefined : view?.message);
  return (
    <li>
      <div class="row">
        <Badge word={status} />
        <span class="mono">
          {p?.new ? (
            <>
              <span title={p.old}>{short(p.old)}</span> → <span title={p.new}>{short(p.new)}</span>
            </>
          ) : view ? (
            "–"
          ) : (
            "…"
          )}
        </span>
        {ref && ref !== t.branch && <span class="mono wrap">on {ref}</span>}
        {(view?.code ?? a.code) && <code>{view?.code ?? a.code}</code>}
        <Time at={a.created} />
      </div>
      {why && <p class="wrap">{why}</p>}
      <Failure error={error} again={again} />
      <a class="mono id small" href={link("actions", a.id)}>
        {a.id}
      </a>
    </li>
  );
}
