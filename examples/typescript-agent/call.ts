// Make a call once, whatever happens to the connection.
//
// Usage: node dist/call.js METHOD URL [BODY]
//
// The Idempotency-Key names the call. If the connection is lost, the program sends the
// same request again: Weir returns the stored result and does not repeat the call.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { argv, env, exit } from "node:process";
import { pathToFileURL } from "node:url";

export const weir = env.WEIR_URL ?? "http://127.0.0.1:8092";

export function headers(more: Record<string, string> = {}): Record<string, string> {
  return env.WEIR_TOKEN ? { ...more, Authorization: `Bearer ${env.WEIR_TOKEN}` } : more;
}

export interface Call {
  method: string;
  url: string;
  body?: unknown;
}

/** Returns the status and the document that Weir answers. */
export async function execute(call: Call, key: string): Promise<{ status: number; document: unknown }> {
  for (const wait of [200, 1000, 5000, undefined]) {
    try {
      const answer = await fetch(`${weir}/v1/execute`, {
        method: "POST",
        headers: headers({ "Content-Type": "application/json", "Idempotency-Key": key }),
        body: JSON.stringify(call),
        signal: AbortSignal.timeout(60_000),
      });
      return { status: answer.status, document: await answer.json() };
    } catch (lost) { // the connection was lost: send the same request again
      if (wait === undefined) throw lost;
      await sleep(wait);
    }
  }
  throw new Error("unreachable");
}

if (import.meta.url === pathToFileURL(argv[1] ?? "").href) {
  const [method, url, body] = argv.slice(2);
  if (!method || !url) {
    console.error("usage: node dist/call.js METHOD URL [BODY]");
    exit(2);
  }
  // Derive the key from what the call is for, such as an order's number, so that a
  // restarted program finds its own call again.
  const { status, document } = await execute({ method, url, body: body && JSON.parse(body) }, env.CALL_KEY || randomUUID());
  console.log(JSON.stringify(document, null, 2));
  exit(status < 400 ? 0 : 1);
}
