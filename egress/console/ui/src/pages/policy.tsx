import { useMemo, useState } from "preact/hooks";
import { post, query } from "../api";
import { useCall, useLive } from "../live";
import { link } from "../route";
import type { Evidence, Explanation, Page, Policy } from "../types";
import { Badge, Code, Copy, Empty, Facts, Failure, Field, Loading, Select, Time } from "../ui";
import { useMay } from "../who";

export function PolicyPage() {
  const policy = useLive<Policy>("/v1/policy", 10_000);
  return (
    <>
      <div class="head">
        <h1>Policy</h1>
        {policy.data && (
          <span class="dim">
            <code title={policy.data.version}>{policy.data.version.slice(0, 12)}</code> in force since <Time at={policy.data.since} />
          </span>
        )}
      </div>
      <Failure error={policy.error} again={policy.again} />
      <Explain />
      <Denials />
      {policy.data ? <Entries p={policy.data} /> : policy.loading && <Loading what="the policy" />}
    </>
  );
}

function Entries({ p }: { p: Policy }) {
  return (
    <section class="card" aria-labelledby="h-entries">
      <h2 id="h-entries">Entries in force</h2>
      {p.entries.length === 0 ? (
        <Empty title="No entry.">Nothing leaves but to the hosts below.</Empty>
      ) : (
        <table class="rows">
          <thead>
            <tr>
              <th scope="col">Entry</th>
              <th scope="col">Prefix</th>
              <th scope="col">Methods</th>
              <th scope="col">Network</th>
              <th scope="col">Adds</th>
              <th scope="col">Callers may set</th>
            </tr>
          </thead>
          <tbody>
            {p.entries.map((e) => (
              <tr key={e.name}>
                <td>
                  <strong>{e.name}</strong> {e.mode === "shadow" && <Badge word="shadow" as="busy" />} {e.agent && <Badge word="agent" as="plain" />}
                </td>
                <td class="wide mono">{e.url_prefix ?? <span class="dim">shown to operators only</span>}</td>
                <td>{e.methods.join(" ")}</td>
                <td>{e.network}</td>
                <td>{[...(e.headers ?? []), ...(e.query ?? []), ...(e.body ?? [])].join(", ") || <span class="dim">–</span>}</td>
                <td>{[...(e.caller_headers ?? []), ...(e.caller_params ?? [])].join(", ") || <span class="dim">–</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {p.allowed_hosts.length > 0 && (
        <p>
          Hosts that need no entry: <span class="mono">{p.allowed_hosts.join(", ")}</span>
        </p>
      )}
    </section>
  );
}

const methods = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"] as const;

function Explain() {
  const [method, setMethod] = useState("GET");
  const [url, setURL] = useState("");
  const [key, setKey] = useState("");
  const [said, setSaid] = useState<Explanation>();
  const { busy, error, call } = useCall();
  const ask = (e: Event) => {
    e.preventDefault();
    setSaid(undefined);
    void call(async () => setSaid(await post<Explanation>("/v1/policy/explain", { method, url, ...(key && { allowlist_key: key }) })));
  };
  return (
    <section class="card" aria-labelledby="h-explain">
      <h2 id="h-explain">Would this be allowed, and why?</h2>
      <form class="filters" onSubmit={ask}>
        <Select label="Method" value={method} options={methods} onChange={setMethod} />
        <Field label="URL">
          {(id) => <input id={id} class="grow" required value={url} placeholder="https://api.example.com/v1/orders" spellcheck={false} onInput={(e) => setURL(e.currentTarget.value)} />}
        </Field>
        <Field label="Entry">{(id) => <input id={id} value={key} placeholder="the first that fits" spellcheck={false} onInput={(e) => setKey(e.currentTarget.value)} />}</Field>
        <button type="submit" class="primary" disabled={busy || !url}>
          Explain
        </button>
      </form>
      <Failure error={error} />
      {said && (
        <div role="status" class="verdict">
          <p>
            <Badge word={said.allowed ? "allowed" : "denied"} as={said.allowed ? "good" : "bad"} /> {said.code && <code>{said.code}</code>} {said.reason}
          </p>
          <Facts
            of={[
              ["Entry", said.entry],
              ["Check", said.check],
              ["Remedy", said.remedy],
              ["Class", said.class],
            ]}
          />
          {said.entries.length > 0 && (
            <details>
              <summary>What each entry says</summary>
              <ul class="plain">
                {said.entries.map((v) => (
                  <li key={v.entry}>
                    <Badge word={v.fits ? "fits" : "does not"} as={v.fits ? "good" : "plain"} /> <strong>{v.entry}</strong> {v.reason}
                  </li>
                ))}
              </ul>
            </details>
          )}
        </div>
      )}
    </section>
  );
}

interface Denial {
  key: string;
  code: string;
  method: string;
  times: number;
  last: Evidence;
}

/** What was denied within the last day, by what and how often. */
function Denials() {
  const may = useMay("evidence:read");
  const since = useMemo(() => new Date(Date.now() - 86_400_000).toISOString(), []);
  const list = useLive<Page<Evidence>>(may ? "/v1/evidence" + query({ kind: "policy.decision", since, limit: 1000 }) : undefined, 5000);
  const top = useMemo(() => tally(list.data?.items ?? []), [list.data]);
  if (!may) return null;
  return (
    <section class="card" aria-labelledby="h-denials">
      <h2 id="h-denials">Denied most, within a day</h2>
      <Failure error={list.error} />
      {top.length === 0 ? (
        !list.loading && <p class="dim">Nothing was denied.</p>
      ) : (
        <ul class="plain">
          {top.map((d) => (
            <li key={d.key}>
              <One d={d} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function tally(items: Evidence[]): Denial[] {
  const of = new Map<string, Denial>();
  for (const e of items) {
    const p = (e.payload ?? {}) as { method?: unknown };
    const method = typeof p.method === "string" ? p.method : "";
    const code = e.code ?? "";
    const key = [code, method, e.entry ?? ""].join(" ");
    const d = of.get(key);
    of.set(key, { key, code, method, times: (d?.times ?? 0) + 1, last: e });
  }
  return [...of.values()].sort((a, b) => b.times - a.times).slice(0, 10);
}

function One({ d }: { d: Denial }) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <strong>{d.times}×</strong> <code>{d.code}</code> {[d.method, d.last.entry && "by " + d.last.entry].filter(Boolean).join(" ")}
      </summary>
      {open && <Suggested id={d.last.action_id} code={d.code} />}
      <p>
        Last <Time at={d.last.time} />: <a href={link("actions", d.last.action_id)}>{d.last.action_id}</a>
      </p>
    </details>
  );
}

interface Call {
  method?: string;
  url?: string;
  allowlist_key?: string;
}

/** An entry that would let the newest of such calls pass, as narrow as can be. Whether it should is
 * for a person. Evidence does not say where a call was to go; its action does. */
function Suggested({ id, code }: { id: string; code: string }) {
  const asked = useLive<{ payload: Call & { call?: Call } }>(`/v1/actions/${encodeURIComponent(id)}/payload`, 0);
  const call = asked.data?.payload.call ?? asked.data?.payload;
  if (asked.loading) return <p class="dim">Loading…</p>;
  const named = call?.allowlist_key ?? "";
  const missing = code === "DENY_KEY_UNKNOWN";
  const text = suggestion(call?.method ?? "", call?.url ?? "", missing ? named : "");
  if (!text) return <p class="dim">No entry would help: the call itself is wrong, or its action does not say where it was to go.</p>;
  return (
    <>
      {named && !missing && (
        <p>
          The call names the entry <strong>{named}</strong>, and no other entry decides about it. Change that entry, or let the call name the new one in <code>allowlist_key</code>.
        </p>
      )}
      <p>If this call should be allowed, this entry is the narrowest that fits:</p>
      <Code value={text} />
      <Copy label="Copy" text={() => text} />
    </>
  );
}

export function suggestion(method: string, url: string, named: string): string {
  let u: URL;
  try {
    u = new URL(url);
  } catch {
    return "";
  }
  if (!/^https?:$/.test(u.protocol) || u.username || u.password) return "";
  const loopback = /^(localhost|127\.|\[::1\])/.test(u.hostname);
  const name = /^[A-Za-z0-9._:-]{1,128}$/.test(named) ? named : u.hostname.replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  return (
    `- name: ${name}\n  url_prefix: ${u.protocol}//${u.host}${u.pathname}\n  methods: [${method || "GET"}]\n` + (loopback ? "  network: loopback\n" : "  network: public\n")
  );
}
