import { useContext, useEffect, useState } from "preact/hooks";
import { get, post, query, Refusal, request } from "../api";
import { useCall, useLive } from "../live";
import { asCurl, asExec, type Call, order } from "../repeat";
import { link } from "../route";
import { follow, type State } from "../stream";
import type { Action as View, ActionEvent, Decision, Evidence, Page } from "../types";
import { Badge, Code, Copy, Dialog, Empty, Facts, Failure, Loading, Time } from "../ui";
import { settled } from "../vocabulary";
import { useMay, Who } from "../who";
import { LiveMark } from "./actions";
import { Waterfall } from "./waterfall";

const most = 300; // events on the page, the newest

export function Action({ id }: { id: string }) {
  const path = `/v1/actions/${encodeURIComponent(id)}`;
  const [over, setOver] = useState(false);
  const view = useLive<View>(path, over ? 0 : 3000);
  const stream = useEvents(path, view.again);
  useEffect(() => setOver(!!view.data && settled(view.data.status)), [view.data]);
  const a = view.data;
  if (!a) return view.error ? <Missing error={view.error} again={view.again} id={id} /> : <Loading what="the action" />;
  return (
    <>
      <div class="head">
        <div>
          <a class="back" href={link("actions")}>
            ← Actions
          </a>
          <h1 class="mono">{a.id}</h1>
        </div>
        <div class="row">
          {!over && <LiveMark error={stream.state === "lost" ? (view.error ?? new Refusal(0, "", "")) : undefined} word="live" />}
          <Badge word={a.status} />
        </div>
      </div>
      <Failure error={view.error} again={view.again} />
      <Buttons a={a} again={view.again} />
      <div class="columns">
        <div>
          <section class="card" aria-labelledby="h-timeline">
            <h2 id="h-timeline">Timeline</h2>
            <Waterfall events={stream.events} settled={over} />
            <Failure error={stream.why} />
            <ol class="timeline">
              {stream.dropped > 0 && <li class="dim">{stream.dropped} earlier events are not shown.</li>}
              {stream.events.map((e) => (
                <Line key={e.seq} e={e} />
              ))}
            </ol>
          </section>
          {a.result !== undefined && (
            <section class="card" aria-labelledby="h-result">
              <h2 id="h-result">Outcome</h2>
              <Code value={a.result} />
            </section>
          )}
        </div>
        <div>
          <section class="card" aria-labelledby="h-facts">
            <h2 id="h-facts">Facts</h2>
            <Facts
              of={[
                ["Kind", a.kind + (a.task_type ? ` · ${a.task_type}` : "")],
                ["Class", a.class],
                ["Accepted", <Time at={a.created} />],
                ["Settled", a.settled && <Time at={a.settled} />],
                ["Deadline", a.deadline && <Time at={a.deadline} />],
                ["Not before", a.not_before && <Time at={a.not_before} />],
                ["Waiting for", a.waiting && a.waiting.for],
                ["Code", a.code && <code>{a.code}</code>],
                ["Message", a.message],
                ["Made from", a.supersedes && <a href={link("actions", a.supersedes)}>{a.supersedes}</a>],
                ["Resolved", a.resolution && `${a.resolution.effect.replace("_", " ")}${a.resolution.by ? " by " + a.resolution.by : ""}`],
                ["Note", a.resolution?.note],
              ]}
            />
          </section>
          {a.decision && <Decided d={a.decision} />}
          <Payload a={a} />
          <Records id={a.id} again={over} />
        </div>
      </div>
    </>
  );
}

function Missing({ error, again, id }: { error: Refusal; again: () => void; id: string }) {
  if (error.status !== 404) return <Failure error={error} again={again} />;
  return (
    <Empty title={`There is no action ${id}.`}>
      It may be another tenant's, or older than the log keeps. <a href={link("actions")}>See all</a>
    </Empty>
  );
}

function useEvents(path: string, changed: () => void) {
  const [state, setState] = useState<State>("connecting");
  const [why, setWhy] = useState<Refusal>();
  const [{ events, dropped }, set] = useState<{ events: ActionEvent[]; dropped: number }>({ events: [], dropped: 0 });
  useEffect(
    () =>
      follow({
        path: path + "/events",
        onState: (s, cause) => (setState(s), setWhy(cause)),
        onFrame: (f) => {
          const e = JSON.parse(f.data) as ActionEvent;
          set((old) => {
            const all = [...old.events.filter((x) => x.seq !== e.seq), e];
            return { events: all.slice(-most), dropped: old.dropped + Math.max(0, all.length - most) };
          });
          if (["settled", "resolution", "attempt", "cancel", "waiting"].includes(e.type)) changed();
        },
      }),
    [path, changed],
  );
  return { state, why, events, dropped };
}

function Line({ e }: { e: ActionEvent }) {
  return (
    <li class={`event ${e.type}`}>
      <span class="what">
        <strong>{e.type}</strong> <Said e={e} />
      </span>
      <Time at={e.time} />
    </li>
  );
}

function Said({ e }: { e: ActionEvent }) {
  if (e.attempt) {
    const d = e.attempt.decision;
    return (
      <>
        no. {e.attempt.number}
        {e.attempt.hop ? `, redirect ${e.attempt.hop}` : ""}
        {e.attempt.step ? `, step ${e.attempt.step}` : ""} {d.entry && <>by {d.entry}</>}
      </>
    );
  }
  if (e.attempted) {
    return (
      <>
        no. {e.attempted.number} {e.attempted.status ?? ""} {e.attempted.code && <code>{e.attempted.code}</code>}
        {e.attempted.sent ? "" : " nothing was sent"} {e.attempted.traffic?.mocked && `mocked by ${e.attempted.traffic.mocked}`}
      </>
    );
  }
  if (e.settled) {
    return (
      <>
        <Badge word={e.settled.outcome} /> {e.settled.code && <code>{e.settled.code}</code>}
      </>
    );
  }
  if (e.waiting) return <>for {e.waiting.for.replaceAll("_", " ")}</>;
  if (e.resolution) return <>{e.resolution.effect.replaceAll("_", " ")}</>;
  if (e.task) return <>{e.task.what.replaceAll("_", " ")}</>;
  if (e.data !== undefined) return <span class="mono dim cut">{JSON.stringify(e.data)}</span>;
  return null;
}

function Decided({ d }: { d: Decision }) {
  return (
    <section class="card" aria-labelledby="h-decision">
      <h2 id="h-decision">Decision</h2>
      <p>
        <Badge word={d.allowed ? "allowed" : "denied"} as={d.allowed ? "good" : "bad"} /> {d.code && <code>{d.code}</code>}
      </p>
      {d.reason && <p>{d.reason}</p>}
      <Facts
        of={[
          ["Entry", d.entry && <a href={link("policy")}>{d.entry}</a>],
          ["Policy", <code title={d.version}>{d.version.slice(0, 12)}</code>],
          ["Rules", d.traffic?.rules?.join(", ")],
          ["Redirected by", d.traffic?.redirected],
          ["Mocked by", d.traffic?.mocked],
          ["Shadow", d.shadow && (d.shadow.allowed ? `would allow by ${d.shadow.entry}` : `would deny: ${d.shadow.code}`)],
        ]}
      />
    </section>
  );
}

interface Paid {
  payload: Call & { call?: Call };
}

function Payload({ a }: { a: View }) {
  const who = useContext(Who);
  const { busy, error, call } = useCall();
  const [doc, set] = useState<Paid>();
  useEffect(() => set(undefined), [a.id]);
  if (!["http", "plan", "run"].includes(a.kind)) return null;
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

function Records({ id, again }: { id: string; again: boolean }) {
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
                {r.kind} {r.code && <code>{r.code}</code>} <Time at={r.time} />
              </summary>
              <Code value={r.payload} />
            </details>
          </li>
        ))}
      </ul>
      {list.data && list.data.items.length > 0 && <a href={link("evidence", "", { action_id: id })}>All of it</a>}
    </section>
  );
}

function Buttons({ a, again }: { a: View; again: () => void }) {
  const may = useMay("actions:write");
  const { busy, error, call } = useCall();
  const [asked, ask] = useState<"" | "cancel" | "resolve" | "repeat">("");
  const over = settled(a.status);
  const act = (f: () => Promise<unknown>) =>
    call(async () => {
      await f();
      ask("");
      again();
    });
  const base = `/v1/actions/${encodeURIComponent(a.id)}`;
  const repeat = async () => {
    const p = await get<Paid>(base + "/payload");
    const made = await request<{ id: string }>("POST", "/v1/execute", order(p.payload), undefined, { Prefer: "respond-async" });
    location.hash = link("actions", made.id);
  };
  return (
    <div class="row buttons">
      {!over && (
        <button type="button" disabled={!may || busy || a.cancel_requested} onClick={() => ask("cancel")}>
          {a.cancel_requested ? "Cancel requested" : "Cancel"}
        </button>
      )}
      {a.status === "outcome_unknown" && !a.resolution && (
        <button type="button" disabled={!may || busy} onClick={() => ask("resolve")}>
          Resolve
        </button>
      )}
      {over && a.kind === "http" && (
        <button type="button" disabled={!may || busy} onClick={() => ask("repeat")}>
          Ask again
        </button>
      )}
      {!may && <span class="dim">This token may look, and change nothing.</span>}
      {asked === "cancel" && (
        <Dialog title="Cancel this action?" onClose={() => ask("")}>
          <p>Before its first attempt nothing is sent. A call that is not safe to cut off is left to finish, and its outcome stands.</p>
          <Failure error={error} />
          <footer>
            <button type="button" class="danger" disabled={busy} onClick={() => void act(() => post(base + "/cancel"))}>
              Cancel the action
            </button>
          </footer>
        </Dialog>
      )}
      {asked === "resolve" && <Resolve busy={busy} error={error} onClose={() => ask("")} onDone={(effect, note) => void act(() => post(base + "/resolve", { effect, ...(note && { note }) }))} />}
      {asked === "repeat" && (
        <Dialog title="Ask for the same call again?" onClose={() => ask("")}>
          <p>A new action makes the same call. What this one has done, it does once more.</p>
          {a.status === "outcome_unknown" && <p class="strong">Nobody knows whether this one had its effect: look at the target first.</p>}
          <Failure error={error} />
          <footer>
            <button type="button" class="danger" disabled={busy} onClick={() => void act(repeat)}>
              {busy ? "Under way…" : "Ask again"}
            </button>
          </footer>
        </Dialog>
      )}
    </div>
  );
}

function Resolve(p: { busy: boolean; error: Refusal | undefined; onClose: () => void; onDone: (effect: string, note: string) => void }) {
  const [note, set] = useState("");
  return (
    <Dialog title="What became of the call?" onClose={p.onClose}>
      <p>Your word stands beside the outcome and does not change it. Look at the target before you give it.</p>
      <label for="note">Note</label>
      <input id="note" value={note} maxLength={2000} onInput={(e) => set(e.currentTarget.value)} />
      <Failure error={p.error} />
      <footer>
        <button type="button" disabled={p.busy} onClick={() => p.onDone("applied", note)}>
          It was applied
        </button>
        <button type="button" disabled={p.busy} onClick={() => p.onDone("not_applied", note)}>
          It was not
        </button>
      </footer>
    </Dialog>
  );
}
