import { useEffect, useMemo, useState } from "preact/hooks";
import { post, query } from "../api";
import { targetOf } from "../call";
import { useCall, useLive } from "../live";
import { link, type Route } from "../route";
import type { Evidence, Explanation, Page, Policy, PolicyEntry } from "../types";
import { Badge, Empty, Facts, Failure, Field, Head, Loading, Select, Time } from "../ui";
import { methods } from "../vocabulary";
import { useMay } from "../who";
import { contractFacts, Delivery } from "./contract";
import { Remedy } from "./remedy";

export function PolicyPage({ route }: { route: Route }) {
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
      <Explain key={route.params.toString()} of={route.params} />
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
        <Empty title="No entry.">Weir only allows calls to the hosts below.</Empty>
      ) : (
        <table class="rows">
          <Head of={["Entry", "Prefix", "Methods", "Network", "Adds", "Callers may set", "Delivery"]} />
          <tbody>
            {p.entries.map((e) => (
              <tr key={e.name}>
                <td>
                  <a class="strong" href={link("actions", "", { entry: e.name })} title="Actions by this entry">
                    {e.name}
                  </a>{" "}
                  {e.mode === "shadow" && <Badge word="shadow" as="busy" />} {e.agent && <Badge word={e.name.startsWith("model:") ? "model" : "agent"} as="plain" />}
                </td>
                <td class="wide mono">{e.url_prefix ?? <span class="dim">shown to operators only</span>}</td>
                <td>{e.methods.join(" ")}</td>
                <td>{e.network}</td>
                {adds(e).length === 0 ? <td class="none dim">–</td> : <td data-name="adds">{adds(e).join(", ")}</td>}
                <td data-name="callers may set">{callersMaySet(e)}</td>
                <Delivery of={e} />
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

const adds = (e: PolicyEntry): string[] => [...(e.headers ?? []), ...(e.query ?? []), ...(e.body ?? [])];

/** An entry that adds nothing and names nothing leaves everything to callers; see `weir policy show`. */
function callersMaySet(e: PolicyEntry): string {
  const names = [...(e.caller_headers ?? []), ...(e.caller_params ?? []), ...(e.pass ?? [])];
  return names.join(", ") || (adds(e).length === 0 && !e.agent ? "any" : "–");
}

/** Explains a call. The parameters of the page can name it. */
function Explain({ of }: { of: URLSearchParams }) {
  const [method, setMethod] = useState(of.get("method") || "GET");
  const [url, setURL] = useState(of.get("url") ?? "");
  const [key, setKey] = useState(of.get("key") ?? "");
  const [said, setSaid] = useState<Explanation>();
  const { busy, error, call } = useCall();
  const ask = () => {
    setSaid(undefined);
    void call(async () => setSaid(await post<Explanation>("/v1/policy/explain", { method, url, ...(key && { allowlist_key: key }) })));
  };
  useEffect(() => void (of.get("url") && ask()), []);
  return (
    <section class="card" aria-labelledby="h-explain">
      <h2 id="h-explain">Explain a call</h2>
      <form class="filters" onSubmit={(e) => (e.preventDefault(), ask())}>
        <Select label="Method" value={method} options={methods} onChange={setMethod} />
        <Field label="URL">
          {(id) => <input id={id} class="grow" required value={url} placeholder="https://api.example.com/v1/orders" spellcheck={false} onInput={(e) => setURL(e.currentTarget.value)} />}
        </Field>
        <Field label="Entry">{(id) => <input id={id} value={key} placeholder="first match" spellcheck={false} onInput={(e) => setKey(e.currentTarget.value)} />}</Field>
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
              ...contractFacts(said.contract),
            ]}
          />
          {said.entries.length > 0 && (
            <details>
              <summary>All entries</summary>
              <ul class="plain">
                {said.entries.map((v) => (
                  <li key={v.entry}>
                    <Badge word={v.fits ? "matches" : "no match"} as={v.fits ? "good" : "plain"} /> <strong>{v.entry}</strong> {v.reason}
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
  target: string;
  times: number;
  last: Evidence;
}

/** The denied calls of the last day, by code, target and entry. */
function Denials() {
  const may = useMay("evidence:read");
  const since = useMemo(() => new Date(Date.now() - 86_400_000).toISOString(), []);
  const list = useLive<Page<Evidence>>(may ? "/v1/evidence" + query({ kind: "policy.decision", since, limit: 1000 }) : undefined, 5000);
  const top = useMemo(() => tally(list.data?.items ?? []), [list.data]);
  if (!may) return null;
  return (
    <section class="card" aria-labelledby="h-denials">
      <h2 id="h-denials">Most denied calls, last 24 hours</h2>
      <Failure error={list.error} />
      {top.length === 0 ? (
        !list.loading && <p class="dim">No denied calls.</p>
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
    const target = targetOf(e.payload);
    const code = e.code ?? "";
    const key = [code, target, e.entry ?? ""].join(" ");
    const d = of.get(key);
    of.set(key, { key, code, target, times: (d?.times ?? 0) + 1, last: e });
  }
  return [...of.values()].sort((a, b) => b.times - a.times).slice(0, 10);
}

function One({ d }: { d: Denial }) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <strong>{d.times}×</strong> <code>{d.code}</code> <span class="mono wrap">{d.target}</span> {d.last.entry && "by " + d.last.entry}
      </summary>
      {open && <Remedy id={d.last.action_id} code={d.last.code} version={d.last.policy_version} />}
      <p>
        Last <Time at={d.last.time} />: <a href={link("actions", d.last.action_id)}>{d.last.action_id}</a>
      </p>
    </details>
  );
}
