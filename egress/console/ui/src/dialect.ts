// Reads the chunks and documents of the other dialects of models in the form of chat completions.
import { type Doc, doc, list, number, words } from "./chat";

/** A chunk or a document of any dialect as a chunk of chat completions. */
export function plain(chunk: Doc): Doc {
  if (Array.isArray(chunk["choices"])) return chunk;
  const type = words(chunk["type"]);
  if (chunk["object"] === "response") return response(chunk);
  if (type.startsWith("response.")) return responseEvent(type, chunk);
  if (type === "message") return message(chunk);
  if (Array.isArray(chunk["data"])) return said(chunk, { content: embeddings(chunk["data"]) });
  if (type === "" && typeof chunk["input_tokens"] === "number") return said({ usage: chunk }, { content: `${number(chunk["input_tokens"])} tokens` });
  return messageEvent(type, chunk);
}

const said = (of: Doc, delta: Doc, finish = ""): Doc => ({ model: of["model"], usage: of["usage"], choices: [{ index: 0, delta, finish_reason: finish }] });

const tool = (index: unknown, id: unknown, name: unknown, args: unknown): Doc => ({ tool_calls: [{ index, id, function: { name, arguments: args } }] });

const texts = (parts: unknown, name = "text"): string =>
  list(parts)
    .map((p) => words(doc(p)[name]))
    .join("");

const ended = (r: Doc): string => (r["status"] === "in_progress" || r["status"] === "queued" ? "" : words(doc(r["incomplete_details"])["reason"]) || words(r["status"]));

/** A response, which may have several items. */
function response(r: Doc): Doc {
  let content = "";
  let reasoning = "";
  let refusal = "";
  const tools: Doc[] = [];
  list(r["output"]).map(doc).forEach((item, n) => {
    const type = words(item["type"]);
    if (type === "message") content += texts(item["content"]);
    if (type === "message") refusal += texts(item["content"], "refusal");
    if (type === "reasoning") reasoning += texts(item["summary"]) + texts(item["content"]);
    if (type.endsWith("_call")) tools.push(called(item, n));
  });
  return said(r, { content, reasoning, refusal, tool_calls: tools }, ended(r));
}

const called = (item: Doc, index: unknown): Doc => ({
  index,
  id: item["call_id"] ?? item["id"],
  function: { name: item["name"] ?? item["type"], arguments: item["arguments"] ?? item["input"] ?? item["action"] },
});

function responseEvent(type: string, e: Doc): Doc {
  const item = doc(e["item"]);
  switch (type) {
    case "response.output_text.delta":
      return said({}, { content: e["delta"] });
    case "response.reasoning_text.delta":
    case "response.reasoning_summary_text.delta":
      return said({}, { reasoning: e["delta"] });
    case "response.refusal.delta":
      return said({}, { refusal: e["delta"] });
    case "response.output_item.added":
      return words(item["type"]).endsWith("_call") ? said({}, { tool_calls: [called(item, e["output_index"])] }) : {};
    case "response.function_call_arguments.delta":
    case "response.custom_tool_call_input.delta":
      return said({}, tool(e["output_index"], undefined, undefined, e["delta"]));
    default: // the first and the last of a stream have the response
      return e["response"] === undefined ? {} : said(doc(e["response"]), {}, ended(doc(e["response"])));
  }
}

/** A message, which may have several blocks. */
function message(m: Doc): Doc {
  const delta = { content: "", reasoning: "", tool_calls: [] as unknown[] };
  list(m["content"]).map(doc).forEach((block, n) => {
    if (block["type"] === "text") delta.content += words(block["text"]);
    if (block["type"] === "thinking") delta.reasoning += words(block["thinking"]);
    if (words(block["type"]).endsWith("tool_use")) delta.tool_calls.push({ index: n, id: block["id"], function: { name: block["name"], arguments: block["input"] } });
  });
  return said(m, delta, words(m["stop_reason"]));
}

function messageEvent(type: string, e: Doc): Doc {
  const block = doc(e["content_block"]);
  const delta = doc(e["delta"]);
  switch (type) {
    case "message_start":
      return message(doc(e["message"]));
    case "content_block_start":
      return words(block["type"]).endsWith("tool_use") ? said({}, tool(e["index"], block["id"], block["name"], "")) : said({}, { content: block["text"], reasoning: block["thinking"] });
    case "content_block_delta":
      if (delta["type"] === "input_json_delta") return said({}, tool(e["index"], undefined, undefined, delta["partial_json"]));
      return said({}, { content: delta["text"], reasoning: delta["thinking"] });
    case "message_delta":
      return said(e, {}, words(delta["stop_reason"]));
    default:
      return {};
  }
}

function embeddings(data: unknown[]): string {
  const first = doc(data[0])["embedding"];
  const each = Array.isArray(first) ? ` of ${first.length.toLocaleString("en")} numbers` : "";
  return `${data.length.toLocaleString("en")} ${data.length === 1 ? "embedding" : "embeddings"}${each}`;
}
