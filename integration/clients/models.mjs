// Calls models with the packages of their providers and prints one JSON document a line for each order:
// events are those of streams, final is an answer or what a package made of a stream, frames are those
// of streams as they arrived, and error is what a package threw.
//
//   node models.mjs '[{"client": "openai", "base": URL, "key": TOKEN, "op": "create", "body": {…}}, …]'
//
// client is openai (6), openai7, anthropic, or chat for the
// completions of openai. headers are sent along. cut: the connection breaks after each event of a
// stream, and the next one resumes with Idempotency-Key and Last-Event-ID.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import OpenAI7 from "openai7";

const last = /^event: (response\.(completed|incomplete|failed)|message_stop|error)$/m;

/** Carries out one order. */
async function run(order) {
  const frames = [];
  const said = { events: [], frames };
  const print = (part) => ("event" in part ? said.events.push(part.event) : Object.assign(said, part));

  /** Yields the frames of a stream, without comments. It breaks the connection after each one if asked to. */
  async function* read(url, init, response) {
    for (let id; ; ) {
      const decoder = new TextDecoder();
      let text = "";
      let frame;
      read: for await (const bytes of response.body) {
        text += decoder.decode(bytes, { stream: true });
        for (let end; (end = text.indexOf("\n\n")) >= 0; ) {
          const whole = text.slice(0, end + 2);
          text = text.slice(end + 2);
          if (!/^(event|data): /m.test(whole)) continue;
          frames.push((frame = whole));
          id = /^id: (.*)$/m.exec(whole)?.[1] ?? id;
          yield whole;
          if (order.cut) break read;
        }
      }
      if (!order.cut || frame === undefined || last.test(frame)) return;
      response = await fetch(url, { ...init, headers: new Headers([...new Headers(init.headers), ["Last-Event-ID", id]]) });
      if (response.status !== 200) throw new Error(`resume after ${id}: ${response.status} ${await response.text()}`);
    }
  }

  /** The fetch of the packages: what they read of a stream is what read yields. */
  const observed = async (url, init) => {
    const response = await fetch(url, init);
    if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return response;
    const encoder = new TextEncoder();
    const events = read(url, init, response);
    const body = new ReadableStream({
      async pull(controller) {
        const { value, done } = await events.next();
        if (done) controller.close();
        else controller.enqueue(encoder.encode(value));
      },
      cancel: () => events.return(),
    });
    return new Response(body, { status: response.status, headers: response.headers });
  };

  const options = { headers: order.headers ?? {} };
  const common = { baseURL: order.base, maxRetries: 0, fetch: observed };
  const client = order.client === "anthropic"
    ? new Anthropic({ ...common, apiKey: null, authToken: order.key ?? "none" })
    : new (order.client === "openai7" ? OpenAI7 : OpenAI)({ ...common, apiKey: order.key ?? "none" });

  /** Prints the events of a stream, and what the package made of it. */
  const follow = async (stream, final) => {
    for await (const event of stream) print({ event });
    print({ final: await final?.() ?? null });
  };

  const ids = async (list) => {
    const ids = [];
    for await (const one of list) ids.push(one.id);
    print({ final: ids });
  };

  const openai = {
    async create() {
      const final = await client.responses.create(order.body, options);
      print({ final, requestID: final._request_id });
    },
    stream() {
      const stream = client.responses.stream(order.body, options);
      return follow(stream, () => stream.finalResponse());
    },
    retrieve: async () => print({ final: await client.responses.retrieve(order.id, {}, options) }),
    /** Reads a stream from after an event on; starting_after -1 is from its beginning. */
    resume: async () => follow(await client.responses.retrieve(order.id, { stream: true, starting_after: order.after < 0 ? undefined : order.after }, options)),
    /** Breaks the connection after each event, and resumes as the protocol does. */
    async cuts() {
      let id;
      for (let after = -1, done = false; !done; ) {
        const stream = id === undefined
          ? await client.responses.create({ ...order.body, stream: true }, options)
          : await client.responses.retrieve(id, { stream: true, starting_after: after }, options);
        let event;
        for await (event of stream) break; // which aborts the request
        print({ event });
        after = event.sequence_number;
        id ??= event.response.id;
        done = ["response.completed", "response.failed"].includes(event.type);
      }
    },
    cancel: async () => print({ final: await client.responses.cancel(order.id, options) }),
    embeddings: async () => print({ final: await client.embeddings.create(order.body, options) }),
    models: () => ids(client.models.list(options)),
  };

  const chat = {
    create: async () => print({ final: await client.chat.completions.create(order.body, options) }),
    async stream() {
      const stream = client.chat.completions.stream(order.body, options);
      return follow(stream, () => stream.finalChatCompletion());
    },
    models: openai.models,
  };

  const anthropic = {
    async create() {
      const final = await client.messages.create(order.body, options);
      print({ final, requestID: final._request_id });
    },
    stream() {
      const stream = client.messages.stream(order.body, options);
      return follow(stream, () => stream.finalMessage());
    },
    count: async () => print({ final: await client.messages.countTokens(order.body, options) }),
    models: () => ids(client.models.list({}, options)),
  };

  try {
    await ({ anthropic, chat }[order.client] ?? openai)[order.op]();
  } catch (e) {
    // The name of the class is in `name` too, because the package may be minified.
    print({ error: { name: e.constructor.name, kind: e.name, status: e.status, code: e.code, type: e.type, message: e.message, requestID: e.requestID, body: e.error } });
  }
  process.stdout.write(JSON.stringify(said) + "\n");
}

for (const order of JSON.parse(process.argv[2])) {
  await run(order);
}
