import { all } from "../api";
import { count } from "../figures";
import { useReading } from "../live";
import { link } from "../route";
import type { BudgetCount, BudgetView } from "../types";
import { Empty, Failure, Head, LiveMark, Loading, Time } from "../ui";
import { Cost } from "./cost";

const most = 500; // accounts on the page

/** The accounts of budgets for models. */
export function Budgets() {
  const live = useReading<BudgetView[]>("budgets", () => all<BudgetView>("/v1/budgets", { limit: 500 }, most), 3000);
  return (
    <>
      <div class="head">
        <h1>Budgets</h1>
        <LiveMark error={live.error} />
      </div>
      <Cost />
      <Failure error={live.error} again={live.again} />
      {!live.data ? (
        !live.error && <Loading what="budgets" />
      ) : live.data.length === 0 ? (
        <Empty title="No budget accounts yet.">
          The configuration defines budgets under <code>budgets</code>. An account shows here after its first chat.
        </Empty>
      ) : (
        <table class="rows">
          <Head of={["Budget", "Requests", "Tokens", "USD", ["Running", "num"], ["Resets", "num"]]} />
          <tbody>
            {live.data.map((b) => (
              <tr key={[b.budget, b.token, b.task, b.model].join(" ")}>
                <td class="wide">
                  <strong>{b.budget}</strong>
                  <div class="dim small">
                    {b.token && <>token {b.token} </>}
                    {b.task && (
                      <>
                        task <a href={link("tasks", b.task.split("/")[0]!)}>{b.task}</a>{" "}
                      </>
                    )}
                    {b.model && <>model {b.model}</>}
                  </div>
                </td>
                <Used name="requests" of={b.requests} />
                <Used name="tokens" of={b.tokens} />
                <Used name="usd" of={b.usd} />
                <td class="num" data-name="running">
                  {b.open}
                </td>
                <td class={"num" + (b.resets ? "" : " none")} data-name="resets">
                  <Time at={b.resets} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {live.data && live.data.length >= most && <p class="dim more">The list shows {most} accounts.</p>}
    </>
  );
}

function Used({ name, of }: { name: string; of: BudgetCount | undefined }) {
  if (!of) return <td class="none dim">–</td>;
  const amount = (n: number) => (name === "usd" ? "$" + n.toFixed(n !== 0 && n < 1 ? 4 : 2) : count(n));
  return (
    <td data-name={name === "usd" ? "USD" : name}>
      {amount(of.used)} of {amount(of.limit)}
      {of.held > 0 && <span class="dim"> · {amount(of.held)} reserved</span>}
      <meter min={0} max={of.limit} value={Math.min(of.used + of.held, of.limit)} high={of.limit * 0.9} aria-label={`${name}: share used`} />
    </td>
  );
}
