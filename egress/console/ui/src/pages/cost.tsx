import { useState } from "preact/hooks";
import { query } from "../api";
import { count } from "../figures";
import { useLive } from "../live";
import { link } from "../route";
import type { Usage, UsageGroup, UsageSum } from "../types";
import { Failure, Head, Loading, Select } from "../ui";
import { useMay } from "../who";
import { usd } from "./completion";

export const cost = (of: UsageSum): string => (of.cost_usd > 0 ? usd(of.cost_usd * 1e9) : "–");

const groups = ["day", "task", "model"] as const;
const spans = ["7d", "30d", "90d"] as const;
const names = { day: "Day (UTC)", task: "Task", model: "Model" };

/** The cost of models per day, task and model. */
export function Cost() {
  const may = useMay("actions:read");
  const [by, setBy] = useState<string>("day");
  const [since, setSince] = useState<string>("7d");
  const live = useLive<Usage>(may ? "/v1/usage" + query({ by, since }) : undefined, 10_000);
  const all = live.data;
  if (!may) return null;
  return (
    <section class="card" aria-labelledby="h-cost">
      <h2 id="h-cost">
        Cost <span class="dim">{all && cost(all.total)}</span>
      </h2>
      <form class="filters" onSubmit={(e) => e.preventDefault()}>
        <Select label="By" value={by} options={groups} onChange={setBy} />
        <Select label="Time" value={since} options={spans} onChange={setSince} />
      </form>
      <Failure error={live.error} again={live.again} />
      {!all ? !live.error && <Loading what="costs" /> : all.groups.length === 0 ? <p class="dim">No chats have ended in this time.</p> : <Groups of={all} />}
      {all?.more && <p class="dim more">{all.more} more are not shown. The total has all of them.</p>}
    </section>
  );
}

function Groups({ of: { by, groups, total } }: { of: Usage }) {
  const most = Math.max(...groups.map((g) => g.cost_usd), 1e-9);
  const rows = by === "day" ? [...groups].reverse() : groups;
  return (
    <table class="rows cost">
      <Head of={[names[by], ["Chats", "num"], ["Tokens in", "num"], ["Tokens out", "num"], ["Cost", "num"]]} />
      <tbody>
        {rows.map((g) => (
          <tr key={g.name}>
            <td class="wide">
              <Name by={by} of={g} />
              <meter min={0} max={most} value={g.cost_usd} aria-label="cost, of the highest shown" />
            </td>
            <Sums of={g} />
          </tr>
        ))}
      </tbody>
      <tfoot>
        <tr>
          <td class="wide">Total</td>
          <Sums of={total} />
        </tr>
      </tfoot>
    </table>
  );
}

function Name({ by, of }: { by: Usage["by"]; of: UsageGroup }) {
  if (by !== "task") return <>{of.name || "unknown"}</>;
  if (!of.name) return <span class="dim">without a task</span>;
  return (
    <a class="mono" href={link("tasks", of.name)}>
      {of.name}
    </a>
  );
}

function Sums({ of }: { of: UsageSum }) {
  return (
    <>
      <td class="num" data-name="chats">
        {count(of.completions)}
      </td>
      <td class="num" data-name="tokens in">
        {count(of.tokens_in)}
      </td>
      <td class="num" data-name="tokens out">
        {count(of.tokens_out)}
      </td>
      <td class="num" data-name="cost">
        {cost(of)}
      </td>
    </>
  );
}
