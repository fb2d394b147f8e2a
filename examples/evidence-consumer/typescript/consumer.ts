// Copies Weir's evidence into a file, one record a line.
//
// Usage: node dist/consumer.js CREDENTIALS FILE
//
// It reads the stream WEIR_EVIDENCE with a durable consumer and acknowledges a record only
// after the record is on disk. If an acknowledgement is lost, NATS delivers the record again
// with the same id: store records by their id.
import { open, readFile } from "node:fs/promises";
import { argv, exit } from "node:process";
import { AckPolicy, connect } from "nats";

const [credentials, name] = argv.slice(2);
if (!credentials || !name) {
  console.error("usage: node dist/consumer.js CREDENTIALS FILE");
  exit(2);
}
const { url, user, password } = JSON.parse(await readFile(credentials, "utf8"));
const connection = await connect({ servers: url, user, pass: password, maxReconnectAttempts: -1 });
const manager = await connection.jetstreamManager();
// The server remembers under this name what was acknowledged: a restart continues there.
await manager.consumers.add("WEIR_EVIDENCE", { durable_name: "evidence-ts", ack_policy: AckPolicy.Explicit });
const consumer = await connection.jetstream().consumers.get("WEIR_EVIDENCE", "evidence-ts");
const file = await open(name, "a", 0o600);
for await (const message of await consumer.consume()) {
  await file.appendFile(message.string() + "\n");
  await file.sync();
  await message.ackAck();
}
