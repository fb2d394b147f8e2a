// Asks for completions with the openai package and prints one JSON document a line:
// {chunk} for each chunk of a stream, {completion} for a whole answer or what the
// package made of a stream, {models} for a list, {aborted} after an abort, and
// {error: {name, status, code, message, body}} for what it threw.
//
//   node chat.mjs BASE '{"op": "create", "body": {...}}'
//
// op is create, stream (chunk by chunk), assemble (the package's own reader), models
// or model; headers are sent along, and abortAfter ends a stream after so many chunks.
import OpenAI from "openai";

const [baseURL, text] = process.argv.slice(2);
const asked = JSON.parse(text);
const client = new OpenAI({ baseURL, apiKey: asked.apiKey ?? "sk-none", maxRetries: asked.retries ?? 0 });
const options = { headers: asked.headers ?? {} };
const print = (line) => process.stdout.write(JSON.stringify(line) + "\n");

const ops = {
  async create() {
    const { data, response } = await client.chat.completions.create(asked.body, options).withResponse();
    print({ completion: data, generation: response.headers.get("x-generation-id") });
  },
  async stream() {
    const stream = await client.chat.completions.create({ ...asked.body, stream: true }, options);
    let n = 0;
    for await (const chunk of stream) {
      print({ chunk });
      if (++n === asked.abortAfter) {
        stream.controller.abort();
        print({ aborted: n });
        return;
      }
    }
    print({ end: n });
  },
  async assemble() {
    const stream = client.chat.completions.stream(asked.body, options);
    print({ completion: await stream.finalChatCompletion() });
  },
  async models() {
    const models = [];
    for await (const model of client.models.list(options)) {
      models.push(model.id);
    }
    print({ models });
  },
  async model() {
    print({ model: await client.models.retrieve(asked.model, options) });
  },
};

try {
  await ops[asked.op]();
} catch (e) {
  print({ error: { name: e.constructor.name, status: e.status, code: e.code, message: e.message, body: e.error } });
}
