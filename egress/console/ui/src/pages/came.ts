// Folds the event stream of a run or a chat.
import { type Answer, doc, extend, number, unanswered, word } from "../chat";
import { add, type Newest, type Told } from "../events";
import type { ActionEvent } from "../types";

const most = { items: 500, text: 8_000 };

/** One event as the page keeps it: no more text than it shows. */
export interface Item {
  e: ActionEvent;
  name: string;
  /** Text for people, and the rest of the data. */
  said: string;
  text: string;
  /** Characters that the page dropped, and bytes that the log did not store. */
  cut: number;
  omitted: number;
}

export interface Came {
  items: Newest<Item>;
  answer: Answer;
  /** Progress as the agent reports it. */
  percent: number | undefined;
  accepted: string;
}

export const nothing: Came = { items: { items: [], dropped: 0 }, answer: unanswered, percent: undefined, accepted: "" };

/** Chunks of a completion go to its answer, other events to the list. */
export function fold(came: Came, come: Told<ActionEvent>[]): Came {
  const items: Item[] = [];
  let { answer, percent, accepted } = came;
  for (const { doc: e } of come) {
    const chunks = doc(e.data)["chunks"];
    if (e.type === "delta" && Array.isArray(chunks)) {
      answer = extend(answer, chunks, e.time);
      continue;
    }
    if (e.type === "accepted") accepted = e.time;
    const far = doc(doc(e.data)["data"])["percent"];
    if (typeof far === "number" && far >= 0 && far <= 100) percent = far;
    items.push(item(e));
  }
  return { items: add(came.items, items, most.items), answer, percent, accepted };
}

function item(e: ActionEvent): Item {
  const { data, ...rest } = e;
  if (data === undefined) return { e: rest, name: "", said: "", text: "", cut: 0, omitted: 0 };
  const told = e.type === "progress" ? doc(data) : { data };
  const [said, other] = apart(told["data"]);
  const text = shown(other);
  const over = (t: string) => Math.max(0, t.length - most.text);
  return {
    e: rest,
    name: word(told["name"]) || e.type,
    said: said.slice(0, most.text),
    text: text.slice(0, most.text),
    cut: over(said) + over(text),
    omitted: number(told["omitted"]),
  };
}

const spoken = ["text", "message", "content", "delta", "token"];

/** Splits an agent's data into its text, by common member names, and the rest. */
function apart(data: unknown): [string, unknown] {
  if (typeof data === "string") return [data, undefined];
  const name = spoken.find((n) => typeof doc(data)[n] === "string");
  if (!name) return ["", data];
  const { [name]: said, ...rest } = doc(data);
  return [said as string, Object.keys(rest).length > 0 ? rest : undefined];
}

function shown(data: unknown): string {
  if (data === undefined || data === null) return "";
  const line = JSON.stringify(data);
  return line.length <= 100 ? line : JSON.stringify(data, null, 2);
}
