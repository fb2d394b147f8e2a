import { useEffect, useMemo, useState } from "preact/hooks";
import { get, post, type Refusal, request } from "../api";
import { CallTitle, titleOf } from "../call";
import { useEvents } from "../events";
import { useCall } from "../live";
import { order } from "../repeat";
import { link } from "../route";
import type { PushResult } from "../tasks";
import type { Action as View, ActionEvent, Decision } from "../types";
import { Badge, Dialog, Facts, Failure, Loading } from "../ui";
import { settled } from "../vocabulary";
import { useMay } from "../who";
import { Cancel, Live, Missing, type Paid, Payload, Records, standing, useAction } from "./about";
import { Gone, Line, matters } from "./events";
import { Outcome } from "./outcome";
import { Remedy } from "./remedy";
import { Waterfall } from "./waterfall";

export function Action({ id }: { id: string }) {
  const { path, view, over } = useAction(id);
  const stream = useEvents<ActionEvent>(path, view.again, matters);
  const events = useMemo(() => stream.events.map((e) => e.doc), [stream.events]);
  const a = view.data;
  const title = a && titleOf(a);
  useEffect(() => void (title && (document.title = title + " · Weir")), [title]);
  if (!a) return view.error ? <Missing error={view.error} again={view.again} id={id} all="actions" /> : <Loading what="the action" />;
  const task = a.kind === "task" ? a.id : a.kind === "push" ? (a.result as PushResult | undefined)?.task_id : undefined;
  return (
    <>
      <div class="head">
        <div>
          <a class="back" href={link("actions")}>
            ← Actions
          </a>
          <CallTitle a={a} />
        </div>
        <div class="row">
          {["run", "chat"].includes(a.kind) && <a href={link("runs", a.id)}>{a.kind === "chat" ? "Answer and cost" : "Stream"}</a>}
          <Live over={over} state={stream.state} />
          <Badge word={a.status} />
        </div>
      </div>
      <Failure error={view.error} again={view.again} />
      <Buttons a={a} again={view.again} />
      <div class="columns">
        <div>
          {a.decision && !a.decision.allowed && <Decided d={a.decision} id={a.id} />}
          <section class="card" aria-labelledby="h-timeline">
            <h2 id="h-timeline">Timeline</h2>
            <Waterfall events={events} settled={over} />
            <Failure error={stream.why} />
            <Gone of={stream} />
            {events.length === 0 && !stream.why && !stream.gone && <Loading what="events" />}
            <ol class="timeline">
              {stream.dropped > 0 && <li class="dim">{stream.dropped} earlier events are not shown.</li>}
              {events.map((e) => (
                <Line key={e.seq} e={e} from={a.created} />
              ))}
            </ol>
          </section>
          {a.result !== undefined && (
            <section class="card" aria-labelledby="h-result">
              <h2 id="h-result">Outcome</h2>
              <Outcome id={a.id} value={a.result} />
            </section>
          )}
        </div>
        <div>
          <section class="card" aria-labelledby="h-facts">
            <h2 id="h-facts">Facts</h2>
            <Facts
              of={[
                ...standing(a),
                ["Task", task && <a href={link("tasks", task)}>{task}</a>],
                ["Created from", a.supersedes && <a href={link("actions", a.supersedes)}>{a.supersedes}</a>],
                ["Superseded by", a.superseded_by && <a href={link("actions", a.superseded_by)}>{a.superseded_by}</a>],
                ["Resolved", a.resolution && `${a.resolution.effect.replace("_", " ")}${a.resolution.by ? " by " + a.resolution.by : ""}`],
                ["Note", a.resolution?.note],
              ]}
            />
          </section>
          {a.decision?.allowed && <Decided d={a.decision} id={a.id} />}
          <Payload a={a} />
          <Records id={a.id} again={over} from={a.created} />
        </div>
      </div>
    </>
  );
}

function Decided({ d, id }: { d: Decision; id: string }) {
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
      {!d.allowed && <Remedy id={id} code={d.code} version={d.version} />}
    </section>
  );
}

function Buttons({ a, again }: { a: View; again: () => void }) {
  const may = useMay("actions:write");
  const { busy, error, call, clear } = useCall();
  const [asked, setAsked] = useState<"" | "resolve" | "repeat" | "redrive">("");
  const ask = (what: typeof asked) => (clear(), setAsked(what));
  const over = settled(a.status);
  const act = (f: () => Promise<unknown>) =>
    call(async () => {
      await f();
      ask("");
    }).then(again); // even after an error: another person may have changed the action
  const base = `/v1/actions/${encodeURIComponent(a.id)}`;
  const redrivable = ["failed", "denied", "canceled", "expired"].includes(a.status) || a.resolution?.effect === "not_applied";
  const redrive = async () => {
    const made = await post<{ id: string }>(base + "/redrive");
    location.hash = link("actions", made.id);
  };
  const repeat = async () => {
    const p = await get<Paid>(base + "/payload");
    const made = await request<{ id: string }>("POST", "/v1/execute", order(p.payload), undefined, { Prefer: "respond-async" });
    location.hash = link("actions", made.id);
  };
  return (
    <div class="row buttons">
      {!over && <Cancel a={a} may={may} again={again} />}
      {a.status === "outcome_unknown" && !a.resolution && (
        <button type="button" disabled={!may || busy} onClick={() => ask("resolve")}>
          Resolve
        </button>
      )}
      {redrivable && ["http", "plan", "passthrough"].includes(a.kind) && !a.superseded_by && (
        <button type="button" disabled={!may || busy} onClick={() => ask("redrive")}>
          Redrive
        </button>
      )}
      {over && a.kind === "http" && (
        <button type="button" disabled={!may || busy} onClick={() => ask("repeat")}>
          Retry as new action
        </button>
      )}
      {!may && <span class="dim">This token is read-only.</span>}
      {asked === "resolve" && <Resolve busy={busy} error={error} onClose={() => ask("")} onDone={(effect, note) => void act(() => post(base + "/resolve", { effect, ...(note && { note }) }))} />}
      {asked === "redrive" && (
        <Dialog title="Redrive this action?" onClose={() => ask("")}>
          <p>A new action has the same request and names this one. Weir refuses it if a call of this action took effect, or may have, and must not be repeated.</p>
          <Failure error={error} />
          <footer>
            <button type="button" class="primary" disabled={busy} onClick={() => void act(redrive)}>
              {busy ? "Sending…" : "Redrive"}
            </button>
          </footer>
        </Dialog>
      )}
      {asked === "repeat" && (
        <Dialog title="Retry as a new action?" onClose={() => ask("")}>
          <p>A new action makes the same call. If the first call had an effect, the effect happens twice.</p>
          {a.status === "outcome_unknown" && <p class="strong">The outcome of this action is unknown: check the target first.</p>}
          <Failure error={error} />
          <footer>
            <button type="button" class="danger" disabled={busy} onClick={() => void act(repeat)}>
              {busy ? "Sending…" : "Retry as new action"}
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
    <Dialog title="Did the call take effect?" onClose={p.onClose}>
      <p>Weir stores your answer next to the outcome and does not change the outcome. Check the target first.</p>
      <label for="note">Note</label>
      <input id="note" value={note} maxLength={2000} onInput={(e) => set(e.currentTarget.value)} />
      <Failure error={p.error} />
      <footer>
        <button type="button" disabled={p.busy} onClick={() => p.onDone("applied", note)}>
          Applied
        </button>
        <button type="button" disabled={p.busy} onClick={() => p.onDone("not_applied", note)}>
          Not applied
        </button>
      </footer>
    </Dialog>
  );
}
