// Let a model answer a question with the help of HTTP calls.
//
// Usage: node dist/chat.js MODEL QUESTION
//
// Both the model and the calls that it asks for go through Weir: the policy decides which
// calls leave, and the model reads a refusal as the result of its call.
import { argv, exit } from "node:process";
import { execute, headers, weir } from "./call.ts";

interface ToolCall {
  id: string;
  function: { name: string; arguments: string };
}

interface Message {
  role: string;
  content: string | null;
  tool_calls?: ToolCall[];
  tool_call_id?: string;
}

const tools = [{
  type: "function",
  function: {
    name: "http_get",
    description: "Fetch a URL with GET.",
    parameters: { type: "object", properties: { url: { type: "string" } }, required: ["url"] },
  },
}];

/** Returns the next message of the model. */
async function complete(model: string, messages: Message[]): Promise<Message> {
  const answer = await fetch(`${weir}/v1/chat/completions`, {
    method: "POST",
    headers: headers({ "Content-Type": "application/json" }),
    body: JSON.stringify({ model, messages, tools }),
  });
  const document: any = await answer.json();
  if (!answer.ok) {
    console.error(`the model was not asked: ${document.error.message}`);
    exit(1);
  }
  return document.choices[0].message;
}

const [model, question] = argv.slice(2);
if (!model || !question) {
  console.error("usage: node dist/chat.js MODEL QUESTION");
  exit(2);
}
const messages: Message[] = [{ role: "user", content: question }];
for (let round = 0; round < 10; round++) {
  const message = await complete(model, messages);
  messages.push(message);
  if (!message.tool_calls?.length) {
    console.log(message.content);
    exit(0);
  }
  for (const call of message.tool_calls) {
    const { url } = JSON.parse(call.function.arguments);
    console.error("the model calls", url);
    // The id of the model's call is the key: a repeat of this round calls nothing twice.
    const { document } = await execute({ method: "GET", url }, call.id);
    messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify(document) });
  }
}
console.error("the model gave no answer within ten rounds");
exit(1);
