// Observes evidence with the defaults of the npm package nats: it makes a durable consumer, reads COUNT
// records, acknowledges each, and prints each record's subject on a line.
//
//   node observe.mjs CREDENTIALS COUNT     with the file nats-credentials.json
import { readFileSync } from "node:fs";
import nats from "nats";

const [file, count] = process.argv.slice(2);
const { url, user, password } = JSON.parse(readFileSync(file, "utf8"));
const connection = await nats.connect({ servers: url, user, pass: password });
const manager = await connection.jetstreamManager();
await manager.consumers.add("WEIR_EVIDENCE", { durable_name: "npm", ack_policy: nats.AckPolicy.Explicit });
const consumer = await connection.jetstream().consumers.get("WEIR_EVIDENCE", "npm");
let left = Number(count);
for await (const message of await consumer.consume()) {
  console.log(message.subject);
  await message.ackAck();
  if (--left === 0) break;
}
await connection.drain();
