import { useMemo } from "preact/hooks";
import { CallTitle, Offset } from "../call";
import { type Answer, doc, whole } from "../chat";
import { type Stream, useStream } from "../events";
import { link } from "../route";
import type { ActionEvent, Action as View } from "../types";
import { Badge, Code, Facts, Failure, Loading } from "../ui";
import { useMay } from "../who";
import { Cancel, Live, Missing, Payload, standing, useAction } from "./about";
import { Completion, Refused, spent } from "./completion";
import { Gone, Line, matters, nameOf, Said } from "./events";
import { Tailed } from "./tail";
import { type Came, fold, type Item, nothing } from "./came";

/** One run or chat, live. */
export function Run({ id }: { id: string }) {
  const { path, view, over } = useAction(id);
  const stream = useStream<Came, ActionEvent>(path, nothing, fold, view.again, matters);
  const may = useMay("actions:write");
  const a = view.data;
  if (!a) return view.error ? <Missing error={view.error} again={view.again} id={id} all="runs" /> : <Loading what="the stream" />;
  return (
    <>
      <div class="head">
        <div>
          <a class="back" href={link("runs")}>
            ← Runs and chats
          </a>
          <CallTitle a={{ ...a, model: stream.value.answer.model }} />
        </div>
        <div class="row">
          <a href={link("actions", a.id)}>Action</a>
          <Live over={over} state={stream.state} />
          <Badge word={a.status} />
          {!over && may && <Cancel a={a} may={may} again={view.again} />}
        </div>
      </div>
      <Failure error={view.error} again={view.again} />
      <Failure error={stream.why} />
      {a.kind === "chat" ? <Chat a={a} over={over} stream={stream} /> : <Steps a={a} stream={stream} />}
    </>
  );
}

interface Part {
  a: View;
  stream: Stream<Came>;
}

function Steps({ a, stream }: Part) {
  const { items, percent, accepted } = stream.value;
  return (
    <div class="columns">
      <div>
        <section class="card" aria-labelledby="h-stream">
          <h2 id="h-stream">Stream</h2>
          {percent !== undefined && <progress max={100} value={percent} aria-label="Progress reported by the agent" />}
          <Tailed label="The stream" of={items}>
            {items.items.length === 0 && !stream.why && <Loading what="its events" />}
            <Gone of={stream} />
            {items.dropped > 0 && <p class="dim">{items.dropped} earlier events are not shown.</p>}
            <ol class="pieces">
              {items.items.map((it) => (
                <Piece key={it.e.seq} it={it} from={accepted || a.created} />
              ))}
            </ol>
          </Tailed>
        </section>
        {a.result !== undefined && <Final result={doc(a.result)} />}
      </div>
      <div>
        <About a={a} />
        <Payload a={a} />
      </div>
    </div>
  );
}

function Piece({ it, from }: { it: Item; from: string }) {
  return (
    <li class={"piece " + it.e.type}>
      <div class="row">
        {it.name ? <strong>{it.name}</strong> : <strong>{nameOf(it.e)}</strong>}
        <span class="what">
          <Said e={it.e} />
        </span>
        <Offset at={it.e.time} from={from} />
      </div>
      {it.said && <div class="words">{it.said}</div>}
      {it.text && <div class={"words mono" + (it.said && " dim")}>{it.text}</div>}
      {it.cut > 0 && <p class="dim">{it.cut.toLocaleString("en")} more characters are not shown.</p>}
      {it.omitted > 0 && <p class="dim">The event was too large to store: {it.omitted.toLocaleString("en")} bytes.</p>}
    </li>
  );
}

/** The result of a run. */
function Final({ result }: { result: Record<string, unknown> }) {
  const { outputs, error, ...rest } = result;
  delete rest["request_id"];
  delete rest["status"];
  return (
    <section class="card" aria-labelledby="h-final">
      <h2 id="h-final">{error ? "Error" : "Result"}</h2>
      {error !== undefined && <Code value={error} />}
      {(!error || Object.keys(doc(outputs)).length > 0) && <Code value={outputs} />}
      {Object.entries(rest).map(([name, value]) => (
        <div key={name}>
          <h3>{name}</h3>
          <Code value={value} />
        </div>
      ))}
    </section>
  );
}

function Chat({ a, over, stream }: Part & { over: boolean }) {
  const { items, accepted } = stream.value;
  const end = doc(a.result);
  const kept = useMemo(() => (end["completion"] ? whole(end["completion"]) : undefined), [a.result]);
  const streamed = stream.value.answer.chunks > 0 && !stream.gone;
  const answer: Answer = streamed || !kept ? stream.value.answer : kept;
  return (
    <div class="columns">
      <div>
        <section class="card" aria-labelledby="h-answer">
          <h2 id="h-answer">Answer</h2>
          {stream.gone && !kept && <Gone of={stream} />}
          <Tailed label="The answer" of={answer}>
            {items.items.length === 0 && !stream.why ? <Loading what="the answer" /> : <Completion answer={answer} over={over} />}
          </Tailed>
          <Refused end={end} code={a.code} />
        </section>
        <section class="card" aria-labelledby="h-events">
          <h2 id="h-events">Events</h2>
          <ol class="timeline">
            {items.items.map((it) => (
              <Line key={it.e.seq} e={it.e} from={accepted || a.created} />
            ))}
          </ol>
        </section>
      </div>
      <div>
        <About a={a} more={spent(stream.gone ? { ...answer, first: "" } : answer, end, accepted || a.created)} />
      </div>
    </div>
  );
}

function About({ a, more = [] }: { a: View; more?: Parameters<typeof Facts>[0]["of"] }) {
  return (
    <section class="card" aria-labelledby="h-facts">
      <h2 id="h-facts">Facts</h2>
      <Facts of={[...standing(a), ...more]} />
    </section>
  );
}
