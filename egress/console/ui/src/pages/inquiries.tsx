import { useState } from "preact/hooks";
import { post } from "../api";
import { useCall } from "../live";
import { asks, ended, type Inquiry, type Task } from "../tasks";
import { Badge, Failure, Field, Time } from "../ui";
import { useMay } from "../who";

const longest = 32 << 10; // of an answer, in bytes

/** The agent's questions and their answers. */
export function Inquiries({ t, again }: { t: Task; again: () => void }) {
  const all = t.inquiries ?? [];
  if (all.length === 0) return null;
  const open = asks(t).length;
  return (
    <section class="card" aria-labelledby="h-asked">
      <h2 id="h-asked">
        Questions {open > 0 && <Badge word={open === 1 ? "1 needs an answer" : `${open} need answers`} as="doubt" />}
      </h2>
      <ol class="inquiries">
        {all.map((q) => (
          <Question key={q.n} q={q} t={t} again={again} />
        ))}
      </ol>
    </section>
  );
}

/** Text that people and agents wrote, shown without markup. */
export function Words({ text, name }: { text: string; name: string }) {
  return (
    <div class="quoted" tabIndex={0} role="group" aria-label={name}>
      {text}
    </div>
  );
}

function Question({ q, t, again }: { q: Inquiry; t: Task; again: () => void }) {
  const may = useMay("tasks:write");
  const [draft, set] = useState("");
  const { busy, error, call, clear } = useCall();
  const answered = q.answer !== undefined;
  const beaten = answered && draft !== "" && draft !== q.answer;
  const send = () =>
    call(async () => {
      try {
        await post(`/v1/tasks/${encodeURIComponent(t.id)}/answer`, { answer: draft, inquiry: q.n });
      } finally {
        again(); // even after an error: the task may have changed
      }
    });
  return (
    <li>
      <p class="asked">
        <strong>Question {q.n}</strong> <Time at={q.asked} />
      </p>
      <Words text={q.question} name={`Question ${q.n}`} />
      {answered ? (
        <>
          <p class="asked">
            <strong>Answer</strong> {q.by && <>by {q.by} </>}
            <Time at={q.answered} />
          </p>
          <Words text={q.answer!} name={`Answer ${q.n}`} />
        </>
      ) : ended(t.status) ? (
        <p class="dim">
          No answer.{" "}
          {draft && (
            <>
              Weir did not send your answer to the agent: <q>{draft}</q>
            </>
          )}
        </p>
      ) : (
        !may && <p class="dim">Waiting for an answer.</p>
      )}
      {beaten && (
        <div class="notice doubt" role="alert">
          <div>
            <strong>Another answer arrived first.</strong> Weir sent that answer to the agent and did not send yours: <q>{draft}</q>
          </div>
          <button type="button" class="small" onClick={() => (set(""), clear())}>
            Discard mine
          </button>
        </div>
      )}
      {!beaten && !answered && <Failure error={error} />}
      {!answered && !ended(t.status) && may && (
        <form class="answer" onSubmit={(e) => (e.preventDefault(), void send())}>
          <Field label={`Answer to question ${q.n}`}>
            {(id) => <textarea id={id} class="grow" rows={3} maxLength={longest} value={draft} disabled={busy} onInput={(e) => set(e.currentTarget.value)} />}
          </Field>
          <button type="submit" class="primary" disabled={busy || !draft.trim()}>
            {busy ? "Sending…" : "Answer"}
          </button>
        </form>
      )}
    </li>
  );
}
