import { useState } from "preact/hooks";
import { all, Refusal, rules } from "../api";
import { count } from "../figures";
import { useCall, useLive, useReading } from "../live";
import type { Evidence, Rule, RulePage } from "../types";
import { Badge, Dialog, Empty, Failure, Head, LiveMark, Loading, Switch, Time } from "../ui";
import { useMay } from "../who";
import { Editor } from "./ruleedit";

const most = 5000; // evidence records that are counted

/** How often each rule had an effect within the last hour, by the evidence. */
function useHits() {
  const may = useMay("evidence:read");
  const read = async () => {
    const records = await all<Evidence>("/v1/evidence", { since: new Date(Date.now() - 3_600_000).toISOString(), limit: 1000 }, most);
    const of = new Map<string, number>();
    for (const id of records.flatMap((r) => r.traffic?.rules ?? [])) of.set(id, (of.get(id) ?? 0) + 1);
    return { of, more: records.length >= most };
  };
  return useReading(may ? "hits" : undefined, read, 5000, 20).data;
}

export function Rules() {
  const live = useLive<RulePage>("/v1/rules?limit=1000", 2000);
  const may = useMay("rules:write");
  const { busy, error, call } = useCall();
  const [edited, edit] = useState<{ rule: Rule | undefined; etag: string }>();
  const [asked, ask] = useState(false);
  const set = live.data;
  const hits = useHits();

  const act = (operation: string, args: Record<string, unknown>) =>
    call(async () => {
      try {
        await rules(operation, { ...args, if_match: set?.rules_etag });
      } catch (cause) {
        if (!(cause instanceof Refusal) || cause.code !== "ETAG_MISMATCH") throw cause;
        throw new Refusal(cause.status, cause.code, "The rules have changed since this page read them. Check them and try again.");
      } finally {
        live.again();
      }
    });

  return (
    <>
      <div class="head">
        <h1>Rules</h1>
        <div class="row">
          <LiveMark error={live.error} />
          {set && (
            <>
              <span id="all-rules">{set.global_active ? "All rules are on" : "All rules are off"}</span>
              <Switch on={set.global_active} label="All rules" disabled={!may || busy} onChange={() => (set.global_active ? ask(true) : void act("global.on", {}))} />
            </>
          )}
          <button type="button" class="primary" disabled={!may || !set} onClick={() => edit({ rule: undefined, etag: set!.rules_etag })}>
            New rule
          </button>
        </div>
      </div>
      {!may && <p class="dim">This token is read-only: changing rules needs the scope rules:write.</p>}
      <Failure error={live.error} again={live.again} />
      <Failure error={error} />
      {!set ? (
        live.loading && <Loading what="rules" />
      ) : set.items.length === 0 ? (
        <Empty title="No rules.">Rules mock, delay and redirect calls, or change their headers.</Empty>
      ) : (
        <table class={`rows ${set.global_active ? "" : "muted"}`}>
          <Head of={["On", "Rule", "Type", "Calls", ["Priority", "num"], hits && ["Hits, last hour", "num"], "Group", "Expires"]} />
          <tbody>
            {set.items.map((r) => (
              <tr key={r.id}>
                <td>
                  <Switch on={r.enabled} label={`Rule ${r.id}`} disabled={!may || busy} onChange={() => void act(r.enabled ? "rules.disable" : "rules.enable", { id: r.id })} />
                </td>
                <td>
                  <button type="button" class="link mono" onClick={() => edit({ rule: r, etag: set.rules_etag })}>
                    {r.id}
                  </button>
                  {r.name && <div class="dim">{r.name}</div>}
                </td>
                <td>
                  <Badge word={r.type} as={r.type === "mock" ? "busy" : "plain"} />
                </td>
                <td class="wide mono">
                  {r.match.method} {r.match.url_pattern}
                  {r.scope && <div class="dim">only {Object.entries(r.scope).map(([k, v]) => `${k.replace("_", " ")} ${v}`).join(", ")}</div>}
                </td>
                <td class="num" data-name="priority">
                  {r.priority}
                </td>
                {hits && (
                  <td class="num" data-name="hits">
                    {count(hits.of.get(r.id) ?? 0) + (hits.more ? "+" : "")}
                  </td>
                )}
                <td>{r.group}</td>
                <td class={r.expires_at ? "" : "none"}>{r.expires_at ? <Time at={r.expires_at} /> : <span class="dim">–</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {edited && (
        <Editor
          rule={edited.rule}
          taken={set?.items.map((r) => r.id) ?? []}
          etag={edited.etag}
          mayWrite={may}
          onClose={(changed) => {
            edit(undefined);
            if (changed) live.again();
          }}
        />
      )}
      {asked && (
        <Dialog title="Switch all rules off?" onClose={() => ask(false)}>
          <p>From now on, Weir sends every call of this tenant to its target. Calls that rules mocked before are really sent.</p>
          <footer>
            <button
              type="button"
              class="danger"
              disabled={busy}
              onClick={() => {
                ask(false);
                void act("global.off", {});
              }}
            >
              Switch off
            </button>
          </footer>
        </Dialog>
      )}
    </>
  );
}
