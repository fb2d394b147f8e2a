import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { get, headers, post, Refusal, unreachable } from "../api";
import { useCall, useReading } from "../live";
import type { NodeReport, Readiness, Reload } from "../types";
import { Badge, Dialog, Facts, Failure, Head, LiveMark, Loading, Time } from "../ui";
import { useOperator } from "../who";

/** Reads the readiness of this node. A node that is not ready answers with 503 and the same document. */
async function readiness(signal: AbortSignal): Promise<Readiness> {
  try {
    const answer = await fetch("/readyz", { headers: headers(), credentials: "same-origin", cache: "no-store", signal });
    return (await answer.json()) as Readiness;
  } catch (cause) {
    if (signal.aborted) throw cause;
    throw new Refusal(0, unreachable, "The node is unreachable. The page retries automatically.");
  }
}

/** A node and when it answered last, for as long as the page is open. */
interface Answered extends NodeReport {
  at: string;
}

/** This node, and every node on the log. */
export function Nodes() {
  const live = useReading("this node", readiness, 3000);
  const operator = useOperator();
  const known = useRef(new Map<string, Answered>());
  const all = useReading<Answered[]>(
    operator ? "nodes" : undefined,
    async (signal) => {
      const { items } = await get<{ items: NodeReport[] }>("/v1/nodes", signal);
      items.forEach((n) => known.current.set(n.node, { ...n, at: new Date().toISOString() }));
      return [...known.current.values()];
    },
    5000,
  );
  const [asked, ask] = useState(false);
  const [seen, see] = useState<Reload>();
  const { busy, error, call } = useCall();
  const reload = () => call(async () => (see(await post<Reload>("/v1/policy/reload", { all: true })), ask(false))).then(live.again);
  const r = live.data;
  return (
    <>
      <div class="head">
        <h1>Nodes</h1>
        <div class="row">
          <LiveMark error={live.error} />
          {operator && (
            <button type="button" onClick={() => ask(true)}>
              Reload the policy on all nodes
            </button>
          )}
        </div>
      </div>
      <Failure error={live.error} again={live.again} />
      {!r ? (
        !live.error && <Loading what="the node" />
      ) : (
        <section class="card" aria-labelledby="h-node">
          <h2 id="h-node">
            This node <Badge word={r.ready ? "ready" : "not ready"} as={r.ready ? "good" : "bad"} />
          </h2>
          <Facts
            of={[
              ["Role", r.role ?? "all roles"],
              ["Durability", r.durability],
              ["Replicas", r.replicas],
              ["Partitions", r.partitions],
              ["Policy", r.policy_version && <code title={r.policy_version}>{r.policy_version.slice(0, 12)}</code>],
              ...Object.entries(r.checks ?? {}).map(([name, state]): [string, ComponentChildren] => [`Check: ${name}`, <Badge word={state} as={state === "ok" ? "good" : "bad"} />]),
              ["Reasons", r.reasons?.join(", ")],
            ]}
          />
        </section>
      )}
      <Failure error={all.error} again={all.again} />
      {all.data && <All of={all.data} />}
      {seen && <Seen of={seen} />}
      {!operator && <p class="dim">Only an admin of the tenant default can see all nodes.</p>}
      {asked && (
        <Dialog title="Reload the policy on all nodes?" onClose={() => ask(false)}>
          <p>Every node reads its configuration file again, applies the policy, and reports its role and policy version.</p>
          <Failure error={error} />
          <footer>
            <button type="button" class="primary" disabled={busy} onClick={() => void reload()}>
              {busy ? "Waiting for the nodes…" : "Reload"}
            </button>
          </footer>
        </Dialog>
      )}
    </>
  );
}

function All({ of }: { of: Answered[] }) {
  return (
    <section class="card" aria-labelledby="h-all">
      <h2 id="h-all">Nodes that answer</h2>
      <table class="rows">
        <Head of={["Node", "Role", "Version", "Policy", ["Started", "num"], ["Last answer", "num"]]} />
        <tbody>
          {of.map((n) => (
            <tr key={n.node}>
              <td class="wide mono">{n.node}</td>
              <td>{n.role}</td>
              <td>{n.build ?? "–"}</td>
              <td>{n.version ? <code title={n.version}>{n.version.slice(0, 12)}</code> : "–"}</td>
              <td class="num">
                <Time at={n.started} />
              </td>
              <td class="num">
                <Time at={n.at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Seen({ of }: { of: Reload }) {
  const nodes = of.nodes ?? [];
  return (
    <section class="card" aria-labelledby="h-seen">
      <h2 id="h-seen">Nodes that reported</h2>
      <table class="rows">
        <Head of={["Node", "Role", "Policy", "Result"]} />
        <tbody>
          {nodes.map((n) => (
            <tr key={n.node}>
              <td class="wide mono">{n.node}</td>
              <td>{n.role}</td>
              <td>{n.version ? <code title={n.version}>{n.version.slice(0, 12)}</code> : "–"}</td>
              <td class="wide">{n.error ? <span class="bad-text">{n.error}</span> : !n.version ? "no report in time" : n.changed ? "policy changed" : "unchanged"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
