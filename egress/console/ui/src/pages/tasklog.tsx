import { useEffect, useRef, useState } from "preact/hooks";
import { get, query, type Refusal } from "../api";
import { instant, Offset, titleOf } from "../call";
import { grow, type Tail } from "../chat";
import { add, type Newest, type Told, useStream } from "../events";
import { count } from "../figures";
import { useReading } from "../live";
import { link } from "../route";
import { ended, firstLine, short, type Task, type TaskUpdate, toneOf } from "../tasks";
import type { ActionEntry, ActionPage, Usage } from "../types";
import { Badge, Facts, Failure, Loading, millis, Select } from "../ui";
import { useMay } from "../who";
import { usd } from "./completion";
import { cost } from "./cost";
import { Gone } from "./events";

/** The output of a task's command within a few seconds. */
interface Output {
  id: string;
  time: string;
  lease: number | undefined;
  text: Tail;
}

interface Log {
  events: Newest<Told<TaskUpdate>>;
  output: Newest<Output>;
}

const most = { events: 300, output: 300, text: 20_000, seconds: 10 };
const nothing: Log = { events: { items: [], dropped: 0 }, output: { items: [], dropped: 0 } };

function fold(log: Log, come: Told<TaskUpdate>[]): Log {
  const output = [...log.output.items];
  for (const { id, doc } of come) {
    if (doc.what !== "output") continue;
    const last = output.at(-1);
    const near = last && last.lease === doc.lease && instant(doc.time) - instant(last.time) < most.seconds * 1000;
    const text = grow(near ? last.text : { text: "", cut: 0 }, doc.text ?? "", most.text);
    if (near) output[output.length - 1] = { ...last, text };
    else output.push({ id, time: doc.time, lease: doc.lease, text });
  }
  return {
    events: add(log.events, come.filter((e) => e.doc.what !== "output"), most.events),
    output: add({ items: [], dropped: log.output.dropped }, output, most.output),
  };
}

const always = (u: TaskUpdate) => u.what !== "output";

/** The changes of a task and the output of its command, live. */
export function useLog(path: string, changed: () => void) {
  return useStream<Log, TaskUpdate>(path, nothing, fold, changed, always);
}

interface Stream {
  value: Log;
  gone: boolean;
  why: Refusal | undefined;
}

const first = 100;
const limit = 500;
const sorts = ["model calls", "HTTP calls", "output", "changes"] as const;

type Item = { at: string; sort: (typeof sorts)[number]; row: preact.JSX.Element };

/** What happened in a task, in the order of time: its changes, questions and pushes, the output of its
 * command, and its calls. */
export function TaskLog({ t, stream }: { t: Task; stream: Stream }) {
  const may = useMay("actions:read");
  const want = useRef(first);
  const [only, show] = useState("");
  const read = (signal: AbortSignal) => get<ActionPage>("/v1/actions" + query({ kind: "chat,http,passthrough,push", task: t.id, limit: want.current, count: "true" }), signal);
  const calls = useReading(may ? `the calls of ${t.id}` : undefined, read, ended(t.status) ? 0 : 3000);
  useEffect(() => calls.again(), [t.status, calls.again]);
  const { events, output } = stream.value;
  // A push that was taken is an event of the task.
  const shown = calls.data?.items.filter((a) => a.kind !== "push" || (a.status !== "succeeded" && a.status !== "started")) ?? [];
  const older = (calls.data?.count?.total ?? 0) - (calls.data?.items.length ?? 0);
  const items: Item[] = [
    ...events.items.map(({ id, doc }): Item => ({ at: doc.time, sort: "changes", row: <Change key={"e" + id} u={doc} t={t} /> })),
    ...output.items.map((o): Item => ({ at: o.time, sort: "output", row: <Printed key={"o" + o.id} o={o} from={t.created} /> })),
    ...shown.map((a): Item => ({ at: a.created, sort: a.kind === "chat" ? "model calls" : a.kind === "push" ? "changes" : "HTTP calls", row: <Call key={a.id} a={a} from={t.created} /> })),
  ];
  items.sort((a, b) => instant(a.at) - instant(b.at));
  return (
    <section class="card" aria-labelledby="h-log">
      <div class="row apart">
        <h2 id="h-log">Timeline</h2>
        <Select label="Show" value={only} options={sorts} any="everything" onChange={show} />
      </div>
      <Failure error={stream.why} />
      <Failure error={calls.error} again={calls.again} />
      <Gone of={stream} />
      {!may && <p class="dim">Calls of the task need the scope actions:read.</p>}
      {items.length === 0 && !stream.why && !stream.gone && <Loading what="events" />}
      {older > 0 && (
        <p class="more">
          <span class="dim">{count(older)} earlier calls are not shown. </span>
          {want.current < limit ? (
            <button type="button" class="small" onClick={() => ((want.current = Math.min(limit, want.current + first)), calls.again())}>
              Older
            </button>
          ) : (
            <a href={link("actions", "", { task: t.id })}>Show all as actions</a>
          )}
        </p>
      )}
      <ol class="timeline">
        {events.dropped + output.dropped > 0 && <li class="dim">{events.dropped + output.dropped} earlier events are not shown.</li>}
        {items.filter((i) => !only || i.sort === only).map((i) => i.row)}
      </ol>
    </section>
  );
}

function Change({ u, t }: { u: TaskUpdate; t: Task }) {
  return (
    <li class={`event ${u.what}`}>
      <span class="what">
        <strong>{u.what}</strong> <Said u={u} t={t} />
      </span>
      <Offset at={u.time} from={t.created} />
    </li>
  );
}

function Printed({ o, from }: { o: Output; from: string }) {
  return (
    <li class="event output">
      <div class="what">
        <details>
          <summary>
            <strong>output</strong> <span class="mono dim cut">{firstLine(o.text.text)}</span>
          </summary>
          {o.text.cut > 0 && <p class="dim">{count(o.text.cut)} characters before this are not shown.</p>}
          <pre class="code" tabIndex={0}>
            {o.text.text}
          </pre>
        </details>
      </div>
      <Offset at={o.time} from={from} />
    </li>
  );
}

/** A call of the task. */
function Call({ a, from }: { a: ActionEntry; from: string }) {
  const chat = a.kind === "chat";
  const used = chat && (a.tokens_in || a.tokens_out) ? `${count(a.tokens_in ?? 0)} → ${count(a.tokens_out ?? 0)} tokens` : "";
  const parts = [a.http_status && !chat ? String(a.http_status) : "", used, a.cost_usd ? usd(a.cost_usd * 1e9) : "", a.duration_ms === undefined ? "" : millis(a.duration_ms), a.ttft_ms ? `first token ${millis(a.ttft_ms)}` : ""];
  return (
    <li class={`event made ${chat ? "model" : a.kind}`}>
      <span class="what">
        <strong>{chat ? "model" : a.kind === "push" ? "push" : "HTTP"}</strong>{" "}
        <a class="mono" href={link(chat ? "runs" : "actions", a.id)} title={a.id}>
          {titleOf(a)}
        </a>{" "}
        <span class="dim">{parts.filter(Boolean).join(" · ")}</span> {a.status !== "succeeded" && <Badge word={a.status} />} {a.code && <code>{a.code}</code>}
      </span>
      <Offset at={a.created} from={from} />
    </li>
  );
}

/** What the task has used of models, and how many HTTP calls it made. */
export function TaskUse({ t }: { t: Task }) {
  const may = useMay("actions:read");
  const every = ended(t.status) ? 0 : 5000;
  const read = async (signal: AbortSignal) => {
    const [models, calls] = await Promise.all([
      get<Usage>("/v1/usage" + query({ by: "model", task: t.id }), signal),
      get<ActionPage>("/v1/actions" + query({ kind: "http,passthrough", task: t.id, limit: 1, count: "true" }), signal),
    ]);
    return { models, calls: calls.count?.total ?? 0 };
  };
  const use = useReading(may ? `the use of ${t.id}` : undefined, read, every);
  useEffect(() => use.again(), [t.status, use.again]);
  if (!may) return null;
  const total = use.data?.models.total;
  return (
    <section class="card" aria-labelledby="h-use">
      <h2 id="h-use">Use</h2>
      <Failure error={use.error} again={use.again} />
      {!use.data && !use.error && <Loading what="the use" />}
      {use.data && total && (
        <Facts
          of={[
            ["Cost", <strong>{cost(total)}</strong>],
            ["Model calls", <a href={link("runs", "", { task: t.id })}>{count(total.completions)}</a>],
            ["Tokens", total.completions > 0 && `${count(total.tokens_in)} in, ${count(total.tokens_out)} out`],
            ...(use.data.models.groups.length > 1 ? use.data.models.groups : []).map((g): [string, string] => [g.name || "unknown model", `${cost(g)} · ${count(g.tokens_in)} → ${count(g.tokens_out)} tokens`]),
            ["HTTP calls", <a href={link("actions", "", { task: t.id, kind: "http,passthrough" })}>{count(use.data.calls)}</a>],
          ]}
        />
      )}
    </section>
  );
}

/** An update as text. Questions and answers come from the task, not from the stream. */
function Said({ u, t }: { u: TaskUpdate; t: Task }) {
  const q = t.inquiries?.find((i) => i.n === u.inquiry);
  switch (u.what) {
    case "opened":
      return <>branch created at {short(u.head)}</>;
    case "claimed":
      return u.lease ? <>by an agent of the pool, lease {u.lease}</> : <>by the holder of its own token</>;
    case "released":
      return <>returned, lease {u.lease}</>;
    case "lost":
      return <>the agent of lease {u.lease} stopped responding</>;
    case "reissued":
      return <>new token</>;
    case "subtoken":
      return <>new token for a child of the agent</>;
    case "asked":
      return <>question {u.inquiry} {q && <q>{firstLine(q.question)}</q>}</>;
    case "answered":
      return <>question {u.inquiry} {q?.answer !== undefined && <q>{firstLine(q.answer)}</q>}</>;
    case "pushed":
      return <>to {u.push ? <a href={link("actions", u.push)}>{short(u.head)}</a> : short(u.head)}</>;
    case "cancel":
      return <>cancel requested</>;
    default:
      return (
        <>
          <Badge word={u.status} as={toneOf(u.status)} /> {u.reason} {u.code && <code>{u.code}</code>}
        </>
      );
  }
}
