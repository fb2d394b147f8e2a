// The answer of a model, with tokens, cost and times.
import type { ComponentChildren } from "preact";
import { type Answer, type Choice, doc, list, number, usage, word, words } from "../chat";
import { Badge, Empty, millis } from "../ui";
import { Newest } from "./tail";

export function Completion({ answer, over }: { answer: Answer; over: boolean }) {
  if (answer.choices.length === 0) {
    return <Empty title={over ? "No answer arrived." : "No part of the answer has arrived yet."}>{!over && "An answer that is not streamed arrives as a whole."}</Empty>;
  }
  const choices = [...answer.choices].sort((a, b) => a.index - b.index);
  return (
    <>
      {choices.map((c) => (
        <One key={c.index} c={c} alone={choices.length === 1} />
      ))}
    </>
  );
}

function One({ c, alone }: { c: Choice; alone: boolean }) {
  return (
    <div class="choice">
      {!alone && <h3>Choice {c.index + 1}</h3>}
      {c.reasoning.text && (
        <details class="aside" open>
          <summary>Reasoning</summary>
          <Newest of={c.reasoning} />
        </details>
      )}
      {c.text.text && <Newest of={c.text} class="said" />}
      {c.refusal.text && (
        <div class="aside">
          <strong>Refusal</strong>
          <Newest of={c.refusal} />
        </div>
      )}
      {c.tools.map((t, n) => (
        <div class="aside tool" key={n}>
          <strong>Tool call: {t.name || "unnamed"}</strong> {t.id && <span class="mono dim">{t.id}</span>}
          <Newest of={t.args} class="mono" />
        </div>
      ))}
      {c.finish && (
        <p class="ends">
          Finish reason: <Badge word={c.finish} as={c.finish === "error" ? "bad" : "plain"} />
        </p>
      )}
    </div>
  );
}

/** Why the answer is missing or incomplete. */
export function Refused({ end, code }: { end: Record<string, unknown>; code: string | undefined }) {
  if (!end["error"]) return null;
  const error = doc(end["error"]);
  const told = doc(error["metadata"]);
  const left = list(error["limits"]).map(doc);
  return (
    <div class="notice bad" role="alert">
      <div>
        <strong>{code ?? "Failed"}</strong> {number(error["status"]) || ""} <span class="pre">{words(error["message"])}</span>
        {left.length === 0 && word(told["limit_source"]) && (
          <p>
            The budget {word(told["limit_source"])} has no {word(told["limit_what"])} left.
          </p>
        )}
        {left.map((l, n) => (
          <p key={n}>
            The budget {word(l["source"])} leaves {amount(l["what"], l["remaining"])} of {amount(l["what"], l["limit"])}
          </p>
        ))}
        {end["partial"] === true && <p>The partial answer above stays.</p>}
      </div>
    </div>
  );
}

const amount = (what: unknown, n: unknown): string => (what === "usd" ? usd(number(n)) : `${number(n).toLocaleString("en")} ${word(what)}`);

/** Billionths of a US dollar. */
export function usd(nanos: number): string {
  return "$" + (nanos >= 1e9 ? (nanos / 1e9).toFixed(2) : (nanos / 1e9).toFixed(9).replace(/0{1,7}$/, ""));
}

/** Times, tokens and cost of a chat, as rows of Facts. */
export function spent(answer: Answer, end: Record<string, unknown>, accepted: string): [string, ComponentChildren][] {
  const used = usage(end["usage"]) ?? answer.used;
  const first = answer.first && Math.max(0, Date.parse(answer.first) - Date.parse(accepted));
  const seconds = answer.first ? (Date.parse(answer.last) - Date.parse(answer.first)) / 1000 : 0;
  const speed = used && seconds >= 0.5 && used.completion / seconds;
  return [
    ["Model", word(end["model"]) || answer.model],
    ["Dialect", word(end["dialect"])],
    ["Sent as", word(end["sent"])],
    ["Upstream", word(end["upstream"])],
    ["First token", first === "" ? undefined : `after ${millis(first)}`],
    ["Speed", speed ? `${speed.toFixed(speed < 10 ? 1 : 0)} tokens/s` : undefined],
    ["Prompt", used && tokens(used.prompt, used.cached, "cached")],
    ["Answer", used && tokens(used.completion, used.reasoning, "reasoning")],
    ["Counted", used?.estimated ? "by Weir: the provider reported no usage" : undefined],
    ["Cost", used?.cost === undefined ? undefined : usd(used.cost)],
  ];
}

const tokens = (n: number, some: number, what: string): string => `${n.toLocaleString("en")} tokens${some ? `, ${some.toLocaleString("en")} ${what}` : ""}`;
