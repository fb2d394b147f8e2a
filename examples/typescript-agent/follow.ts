// Follow an action until it ends, over any number of lost connections.
//
// Usage: node dist/follow.js ACTION
//
// Each event has an id. After a lost connection the program sends the last id that it
// read as Last-Event-ID, and Weir continues with the next event.
import { setTimeout as sleep } from "node:timers/promises";
import { argv, exit } from "node:process";
import { headers, weir } from "./call.ts";

interface Event {
  id: string;
  type: string;
  data: unknown;
}

/** Yields each event in order, each exactly once. */
async function* events(action: string): AsyncGenerator<Event> {
  let last = "";
  for (;;) {
    try {
      const answer = await fetch(`${weir}/v1/actions/${action}/events`, {
        headers: headers({ Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) }),
      });
      if (answer.status === 204) return; // the action has ended, and all was read
      if (!answer.ok || !answer.body) {
        console.error(`Weir answers ${answer.status}: ${await answer.text()}`);
        exit(1);
      }
      for await (const event of read(answer.body)) {
        last = event.id;
        yield event;
        if (event.type === "settled") return;
      }
    } catch (lost) {
      if (!(lost instanceof TypeError)) throw lost; // fetch reports a lost connection as a TypeError
    }
    await sleep(500);
  }
}

/** Yields the complete events of a stream of server-sent events. */
async function* read(body: ReadableStream<Uint8Array>): AsyncGenerator<Event> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const bytes of body) {
    text += decoder.decode(bytes, { stream: true });
    const blocks = text.split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const fields = new Map(block.split("\n").map((line) => {
        const at = line.indexOf(":");
        return [line.slice(0, at), line.slice(at + 1).trimStart()] as const;
      }));
      const id = fields.get("id"), data = fields.get("data");
      if (id && data) yield { id, type: fields.get("event") ?? "message", data: JSON.parse(data) };
    }
  }
}

const action = argv[2];
if (!action) {
  console.error("usage: node dist/follow.js ACTION");
  exit(2);
}
for await (const { id, type } of events(action)) console.log(id, type);
