import { useState } from "preact/hooks";
import { link, refine, type Route } from "../route";
import { asks, ended, firstLine, holder, states, type Task, type TaskState, toneOf } from "../tasks";
import { Badge, Empty, Failure, LiveMark, Loading, Select, Text, Time } from "../ui";
import { useMay } from "../who";
import { type Column, useBoard } from "./board";
import { FileTask } from "./filetask";
import "./tasks.css";

export function Tasks({ route }: { route: Route }) {
  const board = useBoard();
  const may = useMay("tasks:write");
  const [filing, file] = useState(false);
  const q = route.params.get("q") ?? "";
  const only = states.find((s) => s === route.params.get("status"));
  const input = route.params.get("input") === "needed";
  const set = (name: string) => (v: string) => refine(route, { [name]: v });
  const columns = board.columns;
  const waiting = columns ? columns.Queued.tasks.concat(columns.Running.tasks).filter((t) => asks(t).length > 0).length : 0;
  const none = !!columns && states.every((s) => columns[s].tasks.length === 0);

  return (
    <>
      <div class="head">
        <h1>Tasks</h1>
        <div class="row">
          {waiting > 0 && <Badge word={waiting === 1 ? "1 needs input" : `${waiting} need input`} as="doubt" />}
          <LiveMark error={board.error} word={board.behind > 0 ? "catching up" : "live"} />
          {may && (
            <button type="button" class="primary" onClick={() => file(true)}>
              New task
            </button>
          )}
        </div>
      </div>
      {!may && <p class="dim">This token is read-only: creating, answering and canceling tasks need the scope tasks:write.</p>}
      <form class="filters find" role="search" onSubmit={(e) => e.preventDefault()}>
        <Text label="Search" type="search" value={q} placeholder="Id, description, repository, branch or metadata" onChange={set("q")} />
        <Select label="State" value={only ?? ""} options={states} any="all" onChange={set("status")} />
        <Select label="Input" value={input ? "needed" : ""} options={["needed"]} any="any" onChange={set("input")} />
      </form>
      <Failure error={board.error} again={board.again} />
      {board.held > 0 && (
        <button type="button" class="fresh" onClick={board.show}>
          {board.held} changed
        </button>
      )}
      {!columns ? (
        !board.error && <Loading what="tasks" />
      ) : none && board.behind > 0 ? (
        <Loading what="tasks; the index is reading the log" />
      ) : none ? (
        <Empty title="No tasks yet.">
          {may ? "Create one here, or with " : "Create one with "}
          <code>weir tasks create --repo shop 'Fix the totals'</code>. An agent that leases the task, or holds its token, works on it.
        </Empty>
      ) : (
        <div class={only ? "board one" : "board"}>
          {states
            .filter((s) => !only || s === only)
            .map((s) => (
              <Stack key={s} state={s} column={columns[s]} fits={(t) => fits(t, q) && (!input || asks(t).length > 0)} narrowed={q !== "" || input} older={() => board.older(s)} full={board.full(s)} />
            ))}
        </div>
      )}
      {filing && <FileTask onClose={() => (file(false), board.again())} />}
    </>
  );
}

function fits(t: Task, q: string): boolean {
  const text = q.toLowerCase();
  return !q || [t.id, t.description, t.repo, t.branch, ...Object.values(t.metadata ?? {})].some((s) => s.toLowerCase().includes(text));
}

function Stack(p: { state: TaskState; column: Column; fits: (t: Task) => boolean; narrowed: boolean; older: () => void; full: boolean }) {
  const { tasks, more, count } = p.column;
  const shown = tasks.filter(p.fits);
  const number = !more ? String(tasks.length) : count && count > tasks.length ? String(count) : `${tasks.length}+`;
  const id = `state-${p.state}`;
  return (
    <section class="stack" aria-labelledby={id}>
      <h2 id={id}>
        {p.state} <span class="dim">{p.narrowed ? `${shown.length} of ${number}` : number}</span>
      </h2>
      {shown.length > 0 && (
        <ul>
          {shown.map((t) => (
            <Card key={t.id} t={t} at={p.state} />
          ))}
        </ul>
      )}
      {more && (
        <p class="more">
          {p.full ? (
            <span class="dim">The newest {tasks.length}.</span>
          ) : (
            <button type="button" class="small" aria-label={`Older tasks: ${p.state}`} onClick={p.older}>
              Older
            </button>
          )}
        </p>
      )}
    </section>
  );
}

function Card({ t, at }: { t: Task; at: TaskState }) {
  const open = asks(t).length;
  return (
    <li class="task">
      <a class="title" href={link("tasks", t.id)}>
        {firstLine(t.description) || t.id}
      </a>
      {(open > 0 || t.cancel_requested || t.status !== at) && (
        <div class="row marks">
          {t.status !== at && <Badge word={t.status} as={toneOf(t.status)} />}
          {open > 0 && <Badge word={open === 1 ? "needs input" : `needs ${open} answers`} as="doubt" />}
          {t.cancel_requested && <Badge word="cancel requested" />}
        </div>
      )}
      <div class="small mono cut" title={t.id}>
        {t.id}
      </div>
      <div class="small cut" title={`${t.repo} · ${t.branch}`}>
        {t.repo} · <span class="mono">{t.branch === t.id ? "own branch" : t.branch}</span>
      </div>
      <div class="small dim wrap">{holder(t)}</div>
      {t.code && <div class="small mono wrap">{t.code}</div>}
      <div class="small dim">
        <Since t={t} />
      </div>
      {!ended(t.status) && (
        <div class="small dim">
          due <Time at={t.deadline} />
        </div>
      )}
      {t.pushes > 0 && (
        <div class="small dim">
          {t.pushes} {t.pushes === 1 ? "push" : "pushes"}
        </div>
      )}
    </li>
  );
}

/** When the task was created, started or ended. */
function Since({ t }: { t: Task }) {
  if (ended(t.status)) return <>ended <Time at={t.ended} /></>;
  if (t.status === "Running") return <>started <Time at={t.started ?? t.created} /></>;
  return <>created <Time at={t.created} /></>;
}
