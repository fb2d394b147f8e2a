import { useState } from "preact/hooks";
import { post } from "../api";
import { useCall } from "../live";
import { link } from "../route";
import { ended, firstLine, holder, type NewTask, short, type Task, toneOf } from "../tasks";
import { Badge, Copy, Dialog, Facts, Failure, Loading, Time } from "../ui";
import { useMay } from "../who";
import { Live, Missing, Records, useUntil } from "./about";
import { Token } from "./filetask";
import { Diff } from "./diff";
import { Inquiries, Words } from "./inquiries";
import { Pushes } from "./pushes";
import { TaskLog, TaskUse, useLog } from "./tasklog";
import "./tasks.css";

export function TaskPage({ id }: { id: string }) {
  const path = `/v1/tasks/${encodeURIComponent(id)}`;
  const view = useUntil<Task>(path, (t) => ended(t.status));
  const stream = useLog(path, view.again);
  const t = view.data;
  const over = !!t && ended(t.status);
  if (!t) return view.error ? <Missing error={view.error} again={view.again} id={id} all="tasks" what="task" /> : <Loading what="the task" />;
  return (
    <>
      <div class="head">
        <div>
          <a class="back" href={link("tasks")}>
            ← Tasks
          </a>
          <h1>{firstLine(t.description) || t.id}</h1>
          <span class="mono id dim">{t.id}</span>
        </div>
        <div class="row">
          <Live over={over} state={stream.state} />
          <Badge word={t.status} as={toneOf(t.status)} />
        </div>
      </div>
      <Failure error={view.error} again={view.again} />
      <Buttons t={t} again={view.again} />
      <div class="columns">
        <div>
          <Inquiries t={t} again={view.again} />
          {(t.result || t.reason || t.message) && (
            <section class="card" aria-labelledby="h-end">
              <h2 id="h-end">Result</h2>
              <p>
                <Badge word={t.status} as={toneOf(t.status)} /> {t.reason && <Badge word={t.reason} />} {t.code && <code>{t.code}</code>}
              </p>
              {t.message && <p class="wrap">{t.message}</p>}
              {t.result && <Words text={t.result} name="What the agent said" />}
            </section>
          )}
          {t.moved && <Diff t={t} />}
          <Pushes t={t} news={stream.value.events.items.length + stream.value.events.dropped} />
          <TaskLog t={t} stream={stream} />
        </div>
        <div>
          <section class="card" aria-labelledby="h-what">
            <h2 id="h-what">Description</h2>
            <Words text={t.description} name="Description" />
          </section>
          <TaskUse t={t} />
          <Known t={t} />
          <Records id={t.id} again={over} from={t.created} />
        </div>
      </div>
    </>
  );
}

function Known({ t }: { t: Task }) {
  const budget = Object.entries(t.budget ?? {}).map(([name, n]) => `${n} ${name === "usd" ? "USD" : name}`);
  return (
    <section class="card" aria-labelledby="h-facts">
      <h2 id="h-facts">Facts</h2>
      <Facts
        of={[
          ["Repository", <span title={t.repo_url}>{t.repo}</span>],
          ["Branch", <span class="mono">{t.branch}</span>],
          ["Base", t.base_ref || t.base ? <>{t.base_ref} <code title={t.base}>{t.base && short(t.base)}</code></> : undefined],
          ["Head", t.head && (t.moved ? <code title={t.head}>{short(t.head)}</code> : "same as base")],
          ["Pushes", t.pushes || undefined],
          ["Agent", holder(t)],
          ["Pool", t.pool],
          ["Model", t.model],
          ["Entries", t.entries?.join(", ")],
          ["Models", t.models?.join(", ")],
          ["Budget", budget.join(", ")],
          ["Force push", t.force_push && "allowed"],
          ["Created", <Time at={t.created} />],
          ["Started", t.started && <Time at={t.started} />],
          ["Deadline", <Time at={t.deadline} />],
          ["Ended", t.ended && <Time at={t.ended} />],
          ["Action", <a href={link("actions", t.id)}>timeline</a>],
          ["Runs and chats", <a href={link("runs", "", { task: t.id })}>of this task</a>],
          ...Object.entries(t.metadata ?? {}).map(([k, v]): [string, string] => [k, v]),
        ]}
      />
      <p>
        <Copy label="Copy as git clone" text={() => `git clone -b ${t.branch} ${t.repo_url}`} />
      </p>
    </section>
  );
}

function Buttons({ t, again }: { t: Task; again: () => void }) {
  const may = useMay("tasks:write");
  const { busy, error, call, clear } = useCall();
  const [asked, setAsked] = useState<"" | "cancel" | "token">("");
  const [made, setMade] = useState<NewTask>();
  const ask = (what: typeof asked) => (clear(), setMade(undefined), setAsked(what));
  const base = `/v1/tasks/${encodeURIComponent(t.id)}`;
  const over = ended(t.status);
  const close = () => busy || ask(""); // keep the dialog open until the token arrives
  const cancel = () => call(async () => (await post(base + "/cancel"), ask(""))).then(again);
  const reissue = () => call(async () => setMade(await post<NewTask>(base + "/token"))).then(again);
  if (!may) return <p class="dim">This token is read-only: answering and canceling need the scope tasks:write.</p>;
  return (
    <div class="row buttons">
      {!over && (
        <button type="button" disabled={busy || t.cancel_requested} onClick={() => ask("cancel")}>
          {t.cancel_requested ? "Cancel requested" : "Cancel"}
        </button>
      )}
      {!over && !t.lease && !t.cancel_requested && (
        <button type="button" disabled={busy} onClick={() => ask("token")}>
          New token
        </button>
      )}
      {asked === "cancel" && (
        <Dialog title="Cancel this task?" onClose={close}>
          <p class="wrap">{firstLine(t.description)}</p>
          <p>The task's token stops working, for the agent's routes and for git. The branch stays unchanged. If the agent reports a result first, that result counts.</p>
          <Failure error={error} />
          <footer>
            <button type="button" class="danger" disabled={busy} onClick={() => void cancel()}>
              Cancel the task
            </button>
          </footer>
        </Dialog>
      )}
      {asked === "token" && (
        <Dialog title={made ? "New token" : "Create a new token?"} onClose={close} stays={!!made}>
          {made ? <Token of={made} /> : <p>The current token stops working. An open question or a running fetch of the agent still finishes.</p>}
          <Failure error={error} />
          <footer>
            {made ? (
              <button type="button" onClick={close}>
                Done
              </button>
            ) : (
              <button type="button" class="danger" disabled={busy} onClick={() => void reissue()}>
                Create token
              </button>
            )}
          </footer>
        </Dialog>
      )}
    </div>
  );
}
