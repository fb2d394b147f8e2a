import type { Refusal } from "../api";
import { Offset } from "../call";
import type { Told } from "../events";
import { link } from "../route";
import { firstLine, short, type Task, type TaskUpdate, toneOf } from "../tasks";
import { Badge, Failure, Loading } from "../ui";
import { Gone } from "./events";

interface Stream {
  events: Told<TaskUpdate>[];
  dropped: number;
  gone: boolean;
  why: Refusal | undefined;
}

/** The events of a task, live. */
export function TaskLog({ t, stream }: { t: Task; stream: Stream }) {
  return (
    <section class="card" aria-labelledby="h-log">
      <h2 id="h-log">Log</h2>
      <Failure error={stream.why} />
      <Gone of={stream} />
      {stream.events.length === 0 && !stream.why && !stream.gone && <Loading what="events" />}
      <ol class="timeline">
        {stream.dropped > 0 && <li class="dim">{stream.dropped} earlier events are not shown.</li>}
        {stream.events.map(({ id, doc }) => (
          <li key={id} class={`event ${doc.what}`}>
            <span class="what">
              <strong>{doc.what}</strong> <Said u={doc} t={t} />
            </span>
            <Offset at={doc.time} from={t.created} />
          </li>
        ))}
      </ol>
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
