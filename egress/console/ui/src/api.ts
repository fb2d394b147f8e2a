// Every request goes to this origin and carries the console's header. Without that header the
// server ignores the cookie.
import type { Page, Problem } from "./types";

export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    /** Of a stream whose history was dropped: the first event that is left. */
    readonly earliest?: number,
  ) {
    super(message);
  }
}

/** The code of a request that did not reach the node. */
export const unreachable = "DISCONNECTED";

type Listener = () => void;
const signedOut = new Set<Listener>();

/** Calls back when a response says that the session has ended. */
export function onSignedOut(f: Listener): () => void {
  signedOut.add(f);
  return () => signedOut.delete(f);
}

export function headers(more: Record<string, string> = {}): Record<string, string> {
  return { "Weir-Console": "1", Accept: "application/json", ...more };
}

async function send(method: string, path: string, body?: unknown, signal?: AbortSignal, more: Record<string, string> = {}): Promise<Response> {
  try {
    return await fetch(path, {
      method,
      headers: headers(body === undefined ? more : { "Content-Type": "application/json", ...more }),
      body: body === undefined ? null : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      signal: signal ?? null,
    });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    const next = method === "GET" ? "The page retries automatically." : "It is unknown whether the change was made: reload the page, then try again.";
    throw new Refusal(0, unreachable, "The node is unreachable. " + next);
  }
}

export async function request<T>(method: string, path: string, body?: unknown, signal?: AbortSignal, more: Record<string, string> = {}): Promise<T> {
  return read<T>(await send(method, path, body, signal, more));
}

/** A response that is text. */
export async function text(path: string, signal?: AbortSignal): Promise<string> {
  const answer = await send("GET", path, undefined, signal, { Accept: "*/*" });
  return answer.ok ? answer.text() : read<string>(answer);
}

export async function read<T>(answer: Response): Promise<T> {
  if (answer.status === 204) return undefined as T;
  const text = await answer.text();
  let doc: unknown;
  try {
    doc = JSON.parse(text);
  } catch {
    throw new Refusal(answer.status, "UNREADABLE", `The response (${answer.status}) is not JSON.`);
  }
  if (answer.ok) return doc as T;
  if (answer.status === 401) signedOut.forEach((f) => f());
  const p = doc as Partial<Problem> & { error?: { code?: string; message?: string } };
  throw new Refusal(answer.status, p.code ?? p.error?.code ?? "UNKNOWN", p.detail ?? p.error?.message ?? p.title ?? "Refused.", Number(p.earliest_id) || undefined);
}

export const get = <T>(path: string, signal?: AbortSignal) => request<T>("GET", path, undefined, signal);
export const post = <T>(path: string, body?: unknown) => request<T>("POST", path, body);

export function query(params: Record<string, string | number | undefined>): string {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== "") q.set(name, String(value));
  }
  const text = q.toString();
  return text && "?" + text;
}

/** Follows the pages of a list up to a bound. */
export async function all<T>(path: string, params: Record<string, string | number | undefined>, most: number): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | undefined;
  do {
    const page: Page<T> = await get(path + query({ ...params, cursor }));
    items.push(...page.items);
    cursor = page.next;
  } while (cursor && items.length < most);
  return items.slice(0, most);
}

let unique = 0;

/** One operation on the traffic rules. */
export async function rules<T>(operation: string, args: Record<string, unknown>): Promise<T> {
  const id = `console-${crypto.getRandomValues(new Uint32Array(2)).join("-")}-${++unique}`;
  const answer = await post<{ data: T }>("/v1/agent-api", { request_id: id, operation, args });
  return answer.data;
}
