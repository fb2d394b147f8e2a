// Command lines that repeat a call.

export interface Call {
  method: string;
  url: string;
  allowlist_key?: string;
  headers?: { name: string; value: string }[];
  body?: unknown;
  text_body?: boolean;
  base64_body?: boolean;
  content_type?: string;
  idempotency_key?: string;
  timeout_ns?: number;
  response_schema?: unknown;
  postcondition?: unknown;
}

/** The headers of a call, with the media type of a body that is not JSON. */
function sent(call: Call): { name: string; value: string }[] {
  const own = call.headers ?? [];
  if (!call.content_type || own.some((h) => h.name.toLowerCase() === "content-type")) return own;
  return [...own, { name: "Content-Type", value: call.content_type }];
}

/** The body of POST /v1/execute that repeats a call as a new action. */
export function order(call: Call): Record<string, unknown> {
  const args: Record<string, unknown> = { method: call.method, url: call.url };
  if (call.allowlist_key) args["allowlist_key"] = call.allowlist_key;
  const headers = sent(call);
  if (headers.length) args["headers"] = Object.fromEntries(headers.map((h) => [h.name, h.value]));
  if (call.body !== undefined) args[call.base64_body ? "body_base64" : call.text_body ? "body_text" : "body"] = call.body;
  if (call.timeout_ns) args["timeout_ms"] = Math.round(call.timeout_ns / 1e6);
  if (call.response_schema) args["response_schema"] = call.response_schema;
  const out: Record<string, unknown> = { type: "Http", args };
  if (call.postcondition) out["postcondition"] = call.postcondition;
  if (call.idempotency_key) out["idempotency_key"] = call.idempotency_key;
  return out;
}

/** A word of a POSIX shell. */
export function quote(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

export function asCurl(origin: string, route: string, body: unknown, signedIn: boolean): string {
  const auth = signedIn ? ` -H "Authorization: Bearer $WEIR_TOKEN"` : "";
  return `curl -sS ${quote(origin + route)}${auth} -H 'Content-Type: application/json' -d ${quote(JSON.stringify(body))}`;
}

export function asExec(call: Call): string {
  const words = ["weir", "exec", call.method, quote(call.url)];
  for (const h of sent(call)) words.push("-H", quote(`${h.name}: ${h.value}`));
  const bytes = call.base64_body ? `printf %s ${quote(String(call.body))} | base64 -d | ` : call.text_body ? `printf %s ${quote(String(call.body))} | ` : "";
  if (bytes) words.push("--data-binary", "@-");
  else if (call.body !== undefined) words.push("-d", quote(JSON.stringify(call.body)));
  if (call.allowlist_key) words.push("--key", quote(call.allowlist_key));
  if (call.idempotency_key) words.push("--upstream-idempotency-key", quote(call.idempotency_key));
  if (call.response_schema) words.push("--response-schema", quote(JSON.stringify(call.response_schema)));
  return bytes + words.join(" ");
}
