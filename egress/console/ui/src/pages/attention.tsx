// What needs a person, first on the page Flow.
import { get, query } from "../api";
import { count } from "../figures";
import { useLive, useReading } from "../live";
import { link } from "../route";
import { asks, type TaskPage } from "../tasks";
import type { ActionPage, DeadLetter, OperationsView, Page } from "../types";
import { Failure } from "../ui";
import { useOperator } from "../who";

interface Need {
  name: string;
  n: number;
  more?: boolean; // a lower bound
  to: string;
  tone: "doubt" | "bad";
}

/** Unknown outcomes, dead letters, tasks that need input, failed and denied calls, and held destinations. Each number
 * counts the list that its link opens. */
export function Attention() {
  const operator = useOperator();
  const day = useLive<ActionPage>("/v1/actions?since=24h&count=true&limit=1", 5000);
  const doubts = useLive<ActionPage>("/v1/actions?status=outcome_unknown&resolved=false&count=true&limit=1", 5000);
  const dead = useLive<Page<DeadLetter>>("/v1/dead-letters?limit=100", 5000);
  const tasks = useReading<TaskPage[]>("tasks", (signal) => Promise.all(["Running", "Queued"].map((status) => get<TaskPage>("/v1/tasks" + query({ status, limit: 100 }), signal))), 5000, 4);
  const held = useLive<OperationsView>(operator ? "/v1/operations" : undefined, 5000);
  const by = day.data?.count?.by ?? {};
  const since = { since: "24h" };
  const asking = tasks.data?.flatMap((p) => p.items).filter((t) => asks(t).length > 0).length ?? 0;
  const needs: Need[] = [
    { name: "Outcome unknown, not resolved", n: doubts.data?.count?.total ?? 0, to: link("actions", "", { status: "outcome_unknown", resolved: "false" }), tone: "doubt" },
    { name: "Dead letters", n: dead.data?.items.length ?? 0, more: !!dead.data?.next, to: link("dead"), tone: "bad" },
    { name: "Tasks that need input", n: asking, more: !!tasks.data?.some((p) => p.next), to: link("tasks", "", { input: "needed" }), tone: "doubt" },
    { name: "Failed, last 24 h", n: by["failed"] ?? 0, to: link("actions", "", { status: "failed", ...since }), tone: "bad" },
    { name: "Denied, last 24 h", n: by["denied"] ?? 0, to: link("actions", "", { status: "denied", ...since }), tone: "bad" },
    { name: "Open breakers", n: held.data?.destinations.filter((d) => d.state !== "asked").length ?? 0, to: link("operations"), tone: "bad" },
    { name: "Paused or pinned by operators", n: held.data?.items.length ?? 0, to: link("operations"), tone: "doubt" },
  ];
  const shown = needs.filter((n) => n.n > 0);
  const reads = [day, doubts, dead, tasks, ...(operator ? [held] : [])];
  const error = reads.find((r) => r.error && r.error.status > 0)?.error; // Flow reports an unreachable node
  const known = reads.every((r) => r.data);
  return (
    <section class="card attention" aria-labelledby="h-attention">
      <h2 id="h-attention">Needs attention</h2>
      <Failure error={error} />
      {shown.length === 0 && <p class="dim">{known ? "Nothing." : error ? "Unknown." : "Loading…"}</p>}
      <ul>
        {shown.map((n) => (
          <li key={n.name}>
            <a href={n.to} class={n.tone}>
              {n.name} <b>{count(n.n) + (n.more ? "+" : "")}</b>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}
