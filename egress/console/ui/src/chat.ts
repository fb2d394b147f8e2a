// Builds an answer of a model from its chunks, in any dialect. They come from a model provider: parts of
// an unexpected form are skipped.
import { plain } from "./dialect";

/** The newest part of a growing text. cut counts the dropped characters before it. */
export interface Tail {
  text: string;
  cut: number;
}

export interface ToolCall {
  index: unknown;
  id: string;
  name: string;
  args: Tail;
}

export interface Choice {
  index: number;
  text: Tail;
  reasoning: Tail;
  refusal: Tail;
  tools: ToolCall[];
  finish: string;
}

export interface Used {
  prompt: number;
  completion: number;
  cached: number;
  reasoning: number;
  estimated: boolean;
  /** In billionths of a US dollar; undefined: no price is known. */
  cost: number | undefined;
}

export interface Answer {
  choices: Choice[];
  chunks: number;
  model: string;
  used: Used | undefined;
  /** The times of the first and the last token. */
  first: string;
  last: string;
}

export const unanswered: Answer = { choices: [], chunks: 0, model: "", used: undefined, first: "", last: "" };

const most = { text: 100_000, aside: 20_000, choices: 16, tools: 64 };

export type Doc = Record<string, unknown>;
export const doc = (v: unknown): Doc => (typeof v === "object" && v !== null && !Array.isArray(v) ? (v as Doc) : {});
export const words = (v: unknown): string => (typeof v === "string" ? v : "");
export const word = (v: unknown): string => words(v).slice(0, 200);
export const list = (v: unknown): unknown[] => (Array.isArray(v) ? v : []);
export const number = (v: unknown): number => (typeof v === "number" && Number.isFinite(v) && v > 0 ? v : 0);

/** Appends to a text and keeps its newest part, somewhat more than most, so that not every word cuts it. */
export function grow(t: Tail, more: string, most: number): Tail {
  const text = t.text + more;
  if (text.length <= most * 1.25) return { text, cut: t.cut };
  let from = text.length - most;
  if (/[\uDC00-\uDFFF]/.test(text.charAt(from))) from++; // not within a character
  return { text: text.slice(from), cut: t.cut + from };
}

/** Adds the chunks of one event to an answer. */
export function extend(a: Answer, chunks: unknown[], at: string): Answer {
  const out: Answer = { ...a, chunks: a.chunks + chunks.length, choices: [...a.choices] };
  for (const chunk of chunks.map((c) => plain(doc(c)))) {
    out.model = word(chunk["model"]) || out.model;
    if (Object.keys(doc(chunk["usage"])).length > 0) out.used = later(out.used, usage(chunk["usage"]));
    list(chunk["choices"]).forEach((c, n) => {
      if (speak(out, doc(c), n)) {
        out.first ||= at;
        out.last = at;
      }
    });
  }
  return out;
}

/** The answer of a complete completion. */
export function whole(completion: unknown): Answer {
  return { ...extend(unanswered, [completion], ""), chunks: 0 };
}

/** Adds a delta to its choice, and reports whether it had content. */
function speak(a: Answer, said: Doc, n: number): boolean {
  const index = typeof said["index"] === "number" ? said["index"] : n;
  let at = a.choices.findIndex((c) => c.index === index);
  if (at < 0) {
    if (a.choices.length >= most.choices) return false;
    const blank = { text: "", cut: 0 };
    at = a.choices.push({ index, text: blank, reasoning: blank, refusal: blank, tools: [], finish: "" }) - 1;
  }
  const c = { ...a.choices[at]! };
  a.choices[at] = c;
  const more = doc(said["delta"] ?? said["message"]);
  const text = content(more["content"]);
  const reasoning = words(more["reasoning_content"]) || words(more["reasoning"]);
  const refusal = words(more["refusal"]);
  if (text) c.text = grow(c.text, text, most.text);
  if (reasoning) c.reasoning = grow(c.reasoning, reasoning, most.aside);
  if (refusal) c.refusal = grow(c.refusal, refusal, most.aside);
  const called = [...list(more["tool_calls"]), ...(more["function_call"] ? [{ index: 0, function: more["function_call"] }] : [])];
  if (called.length > 0) c.tools = called.reduce((tools: ToolCall[], t) => call(tools, doc(t)), c.tools);
  c.finish = word(said["finish_reason"]) || c.finish;
  return text + reasoning + refusal !== "" || called.length > 0;
}

/** A text, or the parts of one. */
function content(v: unknown): string {
  if (typeof v === "string") return v;
  return list(v)
    .map((part) => words(doc(part)["text"]))
    .join("");
}

/** Adds a part of a tool call to the call that it names, or to the newest. */
function call(tools: ToolCall[], piece: Doc): ToolCall[] {
  const f = doc(piece["function"] ?? piece["custom"]);
  const id = word(piece["id"]);
  const index = piece["index"];
  let at = id ? tools.findIndex((t) => t.id === id) : index !== undefined ? tools.findLastIndex((t) => t.index === index) : tools.length - 1;
  const out = [...tools];
  if (at < 0) {
    if (out.length >= most.tools) return tools;
    at = out.push({ index, id, name: "", args: { text: "", cut: 0 } }) - 1;
  }
  const before = out[at]!;
  const said = f["arguments"] ?? f["input"];
  const args = typeof said === "string" ? said : said === undefined || said === null ? "" : JSON.stringify(said);
  out[at] = { ...before, name: word(f["name"]) || before.name, args: args ? grow(before.args, args, most.aside) : before.args };
  return out;
}

const detail = (u: Doc, name: string, ...of: string[]): number => Math.max(...of.map((o) => number(doc(u[o])[name])));

/** The usage after a later report, which may leave out the prompt. */
function later(before: Used | undefined, u: Used | undefined): Used | undefined {
  return before && u && !u.prompt ? { ...u, prompt: before.prompt, cached: before.cached } : u;
}

/** Token usage, in the provider's form or in Weir's. */
export function usage(v: unknown): Used | undefined {
  const u = doc(v);
  if (Object.keys(u).length === 0) return undefined;
  return {
    prompt: number(u["prompt_tokens"]) || number(u["input_tokens"]) + number(u["cache_read_input_tokens"]) + number(u["cache_creation_input_tokens"]),
    completion: number(u["completion_tokens"]) || number(u["output_tokens"]),
    cached: number(u["cached_tokens"]) || number(u["cache_read_input_tokens"]) || detail(u, "cached_tokens", "prompt_tokens_details", "input_tokens_details"),
    reasoning: number(u["reasoning_tokens"]) || detail(u, "reasoning_tokens", "completion_tokens_details", "output_tokens_details"),
    estimated: u["estimated"] === true,
    cost: u["priced"] === true ? number(u["cost_nanousd"]) : undefined,
  };
}
