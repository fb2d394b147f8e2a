import { count, outcomes, rate, took } from "../figures";
import { link } from "../route";
import type { StatsGroup } from "../types";
import { Head } from "../ui";
import { Shares } from "./pipeline";

const most = 50; // the response has no more

/** Figures by kind or by entry, largest first. An accepted action has no entry yet. */
export function Groups({ by, groups, since }: { by: "kind" | "entry"; groups: StatsGroup[] | undefined; since: string }) {
  const title = by === "kind" ? "By kind" : "By policy entry";
  return (
    <section class="card" aria-labelledby={`h-${by}`}>
      <h2 id={`h-${by}`}>{title}</h2>
      {!groups?.length ? (
        <p class="dim">{groups ? (by === "kind" ? "No actions." : "No settled actions with an entry.") : "Loading…"}</p>
      ) : (
        <table class="rows groups">
          <Head of={[by === "kind" ? "Kind" : "Entry", by === "kind" && ["Accepted", "num"], ["Settled", "num"], ["Per second", "num"], ["p50", "num"], ["p99", "num"], "Outcomes"]} />
          <tbody>
            {groups.map((g) => (
              <tr key={g.name}>
                <td class="wide">{g.name ? <a href={link("actions", "", { [by]: g.name, since })}>{g.name}</a> : <span class="dim">none</span>}</td>
                {by === "kind" && <Figure name="accepted">{count(g.accepted)}</Figure>}
                <Figure name="settled">{count(g.settled)}</Figure>
                <Figure name="">{rate(g.rate)}</Figure>
                <Figure name="p50">{took(g.p50_ms)}</Figure>
                <Figure name="p99">{took(g.p99_ms)}</Figure>
                <td class="wide">
                  <Shares of={g.outcomes} />
                  <span class="dim">{words(g.outcomes) || "–"}</span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {groups?.length === most && <p class="dim">The table shows the {most} largest groups.</p>}
    </section>
  );
}

/** A cell with its name, because the table has no head on a phone. */
function Figure({ name, children }: { name: string; children: string }) {
  return (
    <td class="num" data-name={name}>
      {children}
    </td>
  );
}

const words = (of: Record<string, number>): string =>
  outcomes
    .filter((o) => of[o])
    .map((o) => `${count(of[o] ?? 0)} ${o.replaceAll("_", " ")}`)
    .join(" · ");
