import { useRef } from "preact/hooks";
import { query } from "../api";
import { Chart } from "../chart";
import { count, outcomes, rate, took, useDecades, useStraight } from "../figures";
import "../flow.css";
import { useLive } from "../live";
import { link, refine, type Route } from "../route";
import type { ActionPage, Stats } from "../types";
import { Code, Copy, Empty, Failure, LiveMark, Loading } from "../ui";
import { Attention } from "./attention";
import { Groups } from "./groups";
import { Pipeline } from "./pipeline";

// The spans: start, name, length of a step, and how often the page reads them.
const spans = [
  { since: "15m", name: "15 min", step: "10s", seconds: 10, every: 2000 },
  { since: "1h", name: "1 h", step: "1m", seconds: 60, every: 2000 },
  { since: "24h", name: "24 h", step: "10m", seconds: 600, every: 5000 },
  { since: "7d", name: "7 d", step: "1h", seconds: 3600, every: 5000 },
] as const;

/** The pipeline: accepted, queued and running actions, and their outcomes. */
export function Flow({ route }: { route: Route }) {
  const span = spans.find((s) => s.since === route.params.get("span")) ?? spans[0];
  const path = (by: string) => "/v1/stats" + query({ since: span.since, step: span.step, by });
  const kinds = useLive<Stats>(path("kind"), span.every);
  const entries = useLive<Stats>(path("entry"), 5000);
  const minute = useLive<Stats>("/v1/stats?since=1m&step=10s");
  const open = useLive<ActionPage>("/v1/actions?status=open&limit=100");
  const stats = useKept(kinds.data);
  const byEntry = useKept(entries.data);
  const quiet = stats !== undefined && stats.total.accepted + stats.total.settled + stats.open.count === 0 && !stats.behind;
  const ever = useLive<ActionPage>(quiet ? "/v1/actions?limit=1" : undefined, 5000);
  const all = [kinds, entries, minute, open];
  const error = all.find((l) => l.error)?.error;
  const behind = kinds.data?.behind;
  // While the page reads another span, the earlier figures stay and look stale.
  const shown = spans.find((s) => s.seconds === stats?.step_s) ?? span;

  return (
    <>
      <div class="head">
        <h1>Flow</h1>
        <div class="row">
          <div class="segments" role="group" aria-label="Span">
            {spans.map((s) => (
              <button key={s.since} type="button" aria-pressed={s === span} onClick={() => refine(route, { span: s.since })}>
                {s.name}
              </button>
            ))}
          </div>
          <LiveMark error={error} word={behind ? `index catching up: about ${count(behind)} records left` : "live"} />
        </div>
      </div>
      <Failure error={error} again={() => all.forEach((l) => l.again())} />
      <Attention />
      {!stats ? (
        !error && <Loading what="figures" />
      ) : (
        <div class={shown === span ? "" : "stale"} aria-busy={shown !== span}>
          <Pipeline stats={stats} minute={minute.data} page={open.data} span={shown.name} since={shown.since} />
          {quiet && ever.data?.items.length === 0 ? (
            <First />
          ) : quiet && ever.data ? (
            <Empty title={`No actions in the last ${shown.name}.`}>
              Choose a longer span, or look at all <a href={link("actions")}>actions</a>.
            </Empty>
          ) : quiet && !ever.error ? (
            <Loading what="figures" />
          ) : (
            <>
              <Charts stats={stats} />
              <Groups by="kind" groups={stats.groups ?? []} since={shown.since} />
              <Groups by="entry" groups={byEntry?.step_s === stats.step_s ? (byEntry.groups ?? []) : undefined} since={shown.since} />
            </>
          )}
        </div>
      )}
    </>
  );
}

function useKept<T>(data: T | undefined): T | undefined {
  const kept = useRef<T>(undefined);
  if (data) kept.current = data;
  return kept.current;
}

function Charts({ stats }: { stats: Stats }) {
  const { points: p, step_s: step } = stats;
  const key = String(step);
  const accepted = perSecond(p.accepted, stats);
  const ended = perSecond(p.settled, stats);
  const rates = useStraight(Math.max(0, ...accepted.map(Number), ...ended.map(Number)), key, 0.01, rate);
  const latencies = useDecades([...p.p50_ms, ...p.p99_ms], key);
  const mixes = outcomes.map((name) => ({ name, values: p.outcomes[name] ?? p.time.map(() => 0) }));
  const ends = useStraight(Math.max(0, ...p.settled), key, 2, count);
  const of = { times: p.time, step };
  return (
    <div class="charts">
      <Chart
        {...of}
        title="Accepted and settled per second"
        axis={rates}
        say={rate}
        series={[
          { name: "accepted", values: accepted },
          { name: "settled", values: ended, dashed: true },
        ]}
      />
      <Chart
        {...of}
        title="Duration"
        axis={latencies}
        say={took}
        series={[
          { name: "p50", values: p.p50_ms },
          { name: "p99", values: p.p99_ms, dashed: true },
        ]}
      />
      <Chart {...of} title="Outcomes" axis={ends} say={(v) => count(v ?? 0)} series={mixes} stacked />
    </div>
  );
}

/** Counts as rates. The last step has not ended: its rate is shown after half of it has passed,
 * because a few actions in its first second would look like a peak. */
function perSecond(counts: number[], s: Stats): (number | null)[] {
  return counts.map((n, i) => {
    if (i < counts.length - 1) return n / s.step_s;
    const over = (Date.parse(s.as_of ?? s.until) - Date.parse(s.points.time[i] ?? s.until)) / 1000;
    return over < s.step_s / 2 ? null : n / Math.min(over, s.step_s);
  });
}

/** How to send the first call. */
function First() {
  const curl = `curl -sS ${location.origin}/v1/execute -H "Authorization: Bearer $WEIR_TOKEN" \\
  -H 'Content-Type: application/json' -d '{"method":"GET","url":"http://localhost:8000/"}'`;
  return (
    <Empty title="No actions yet.">
      <p>
        Send a call: <code>weir exec GET http://localhost:8000/</code>, or
      </p>
      <div class="first">
        <Code value={curl} />
        <Copy label="Copy" text={() => curl} />
      </div>
      <p>The page shows each call when Weir accepts or denies it.</p>
    </Empty>
  );
}
