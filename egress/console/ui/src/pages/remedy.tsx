// What would allow a denied call, as the policy in force explains it.
import { get, post } from "../api";
import { useReading } from "../live";
import type { Call } from "../repeat";
import { link } from "../route";
import type { Explanation } from "../types";
import { Badge, Code, Copy, Facts, Failure } from "../ui";

interface Told {
  call: Call;
  said: Explanation;
}

type Payload = Call & { call?: Call; "artifact:proposed.plan"?: { decisions?: { target_state?: Call }[] } };

/** Explains the calls of an action in order, up to the first that the policy denies. */
async function explain(id: string, signal: AbortSignal): Promise<Told | undefined> {
  const { payload } = await get<{ payload: Payload }>(`/v1/actions/${encodeURIComponent(id)}/payload`, signal);
  const plan = payload["artifact:proposed.plan"]?.decisions?.map((d) => d.target_state);
  let last: Told | undefined;
  for (const call of plan ?? [payload.call ?? payload]) {
    if (!call?.url) continue;
    last = { call, said: await ask(call) };
    if (!last.said.allowed) break;
  }
  return last;
}

function ask(call: Call): Promise<Explanation> {
  return post<Explanation>("/v1/policy/explain", {
    method: call.method,
    url: call.url,
    ...(call.allowlist_key && { allowlist_key: call.allowlist_key }),
    ...(call.headers?.length && { headers: Object.fromEntries(call.headers.map((h) => [h.name, h.value])) }),
    ...(call.body !== undefined && { body: call.body }),
    ...(call.idempotency_key && { idempotency_key: call.idempotency_key }),
  });
}

/** What the policy in force says of a denied call. version is the policy that denied it. */
export function Remedy({ id, code, version }: { id: string; code: string | undefined; version: string | undefined }) {
  const { data, error, loading } = useReading(`explain ${id}`, (signal) => explain(id, signal), 0);
  if (error?.status === 403 || error?.status === 404) return null;
  if (error) return <Failure error={error} />;
  if (!data) return <p class="dim">{loading ? "Loading…" : "The action does not say where the call goes."}</p>;
  const { call, said } = data;
  const key = call.allowlist_key ?? "";
  const entry = said.remedy && grantable(said) ? suggestion(call, said.remedy) : "";
  const taken = said.entries.some((e) => e.entry === key);
  return (
    <>
      <Facts
        of={[
          ["Now", said.allowed && <><Badge word="allowed" as="good" /> {why(code, said.version === version)}</>],
          ["Check", said.check],
          ["Remedy", said.remedy ?? (!said.allowed && "None: no change of the policy can allow this call.")],
        ]}
      />
      <p>
        <a href={link("policy", "", { method: call.method, url: call.url, key })}>Explain this call</a>
      </p>
      {entry && (
        <>
          <h3>An entry that would allow it</h3>
          {key && (
            <p class="dim">
              The call names the entry <code>{key}</code>.{" "}
              {taken ? "The policy has an entry of that name: change it, or send the call with another key or without one." : "The new entry must have that name, or the call must be sent without it."}
            </p>
          )}
          <Code value={entry} />
          <Copy label="Copy" text={() => entry} />
        </>
      )}
    </>
  );
}

/** Why a call that was denied is allowed in a dry run. */
function why(code: string | undefined, same: boolean): string {
  if (code === "DENY_ADDRESS") return "The policy allows the URL, but not the address of its host: see the network of the entry.";
  return same ? "The policy allows this method and URL. The denial is about another part of the call." : "The policy has changed since the denial: retry the action.";
}

/** Whether another entry can allow the call. No entry allows a path that is malformed. */
function grantable({ check, reason }: Explanation): boolean {
  return check === "path" ? !!reason?.startsWith("the path is not at or below") : ["key", "host", "port", "method", "address"].includes(check ?? "");
}

/** The narrowest entry for a URL. It has the name that the call asks for. The remedy names the network if
 * it is not the public one. */
function suggestion({ method, url, allowlist_key: key }: Call, remedy: string): string {
  let u: URL;
  try {
    u = new URL(url);
  } catch {
    return "";
  }
  const cidr = /network private with cidrs (\S+)/.exec(remedy)?.[1];
  if (!/^https?:$/.test(u.protocol) || u.username || u.password) return "";
  const loopback = /^(localhost|127\.|\[::1\])/.test(u.hostname);
  const name = key || u.hostname.replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  return `- name: ${name}\n  url_prefix: ${u.protocol}//${u.host}${u.pathname}\n  methods: [${method || "GET"}]\n  network: ${cidr ? `private\n  cidrs: [${cidr}]` : loopback ? "loopback" : "public"}\n`;
}
