// Follows a stream of events as a browser would and prints one JSON document a
// line: {id, type, data} for an event, {cut: true} where the connection was lost
// and is tried again, {end: CODE} where the server said that there is no more.
//
//   node follow.mjs URL          with GET
//   node follow.mjs URL BODY     with POST, by the fetch option, as a run is started
import { EventSource } from "eventsource";

// An EventSource gives named events only to those who ask for them by name.
const names = [
  "accepted", "started", "attempt", "attempted", "waiting", "progress", "cancel", "settled", "complete", "message",
];

const [url, body] = process.argv.slice(2);
const post = (at, init) =>
  fetch(at, { ...init, method: "POST", body, headers: { ...init.headers, "Content-Type": "application/json" } });
const source = new EventSource(url, body === undefined ? {} : { fetch: post });
const print = (line) => process.stdout.write(JSON.stringify(line) + "\n");

for (const name of names) {
  source.addEventListener(name, (event) => print({ id: event.lastEventId, type: event.type, data: event.data }));
}
source.addEventListener("error", (event) => {
  if (source.readyState === EventSource.CLOSED) {
    print({ end: event.code });
  } else {
    print({ cut: true });
  }
});
