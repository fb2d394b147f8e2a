import { useEffect, useState } from "preact/hooks";
import { all, get, query, Refusal } from "../api";
import { targetOf } from "../call";
import { useCall } from "../live";
import { link, refine, type Route } from "../route";
import { follow, type State } from "../stream";
import type { Evidence, Page } from "../types";
import { Code, Empty, Failure, Loading, Select, Text, Time } from "../ui";
import { evidenceKinds } from "../vocabulary";
import { useMay } from "../who";

const most = 300; // records on the page
const exported = 100_000; // records in a file

export function EvidencePage({ route }: { route: Route }) {
  const may = useMay("evidence:read");
  const params = {
    action_id: route.params.get("action_id") ?? "",
    kind: route.params.get("kind") ?? "",
    entry: route.params.get("entry") ?? "",
    since: sinceOf(route.params.get("since") ?? "1h"),
  };
  const set = (name: string) => (v: string) => refine(route, { [name]: v });
  if (!may) return <Empty title="This token may not read evidence.">It needs the scope evidence:read.</Empty>;
  return (
    <>
      <div class="head">
        <h1>Evidence</h1>
        <Export params={params} />
      </div>
      <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
        <Text label="Action" type="search" value={params.action_id} placeholder="full id" onChange={set("action_id")} />
        <Select label="Kind" value={params.kind} options={evidenceKinds} any="any" onChange={set("kind")} />
        <Text label="Entry" value={params.entry} placeholder="full name" onChange={set("entry")} />
        <Select label="Since" value={route.params.get("since") ?? "1h"} options={["15m", "1h", "24h", "7d", "all"]} onChange={set("since")} />
      </form>
      <Followed key={route.params.toString()} params={params} />
    </>
  );
}

const spans: Record<string, number> = { "15m": 900, "1h": 3600, "24h": 86_400, "7d": 604_800 };

/** A time to the minute, so that the same search stays the same. */
function sinceOf(word: string): string {
  const s = spans[word];
  return s ? new Date(Math.floor((Date.now() - s * 1000) / 60_000) * 60_000).toISOString() : "";
}

function Followed({ params }: { params: Record<string, string> }) {
  const [on, setOn] = useState(true);
  const [records, set] = useState<Evidence[]>([]);
  const [state, setState] = useState<State>("connecting");
  const [why, setWhy] = useState<Refusal>();
  const [path] = useState("/v1/evidence" + query(params));
  const [quiet, setQuiet] = useState(false); // live for a while: stored records would have arrived
  useEffect(() => {
    setQuiet(false);
    if (state !== "live") return;
    const timer = setTimeout(() => setQuiet(true), 700);
    return () => clearTimeout(timer);
  }, [state]);
  useEffect(() => {
    if (!on) return;
    set([]);
    let batch: Evidence[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = follow({
      path,
      onState: (s, cause) => (setState(s), setWhy(cause)),
      onFrame: (f) => {
        batch.push(JSON.parse(f.data) as Evidence);
        timer ??= setTimeout(() => {
          const come = batch.reverse();
          batch = [];
          timer = undefined;
          set((old) => {
            const known = new Set(come.map((e) => e.id));
            return [...come, ...old.filter((e) => !known.has(e.id))].slice(0, most);
          });
        }, 100);
      },
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [on, path]);
  return (
    <>
      <div class="row">
        <button type="button" class="small" aria-pressed={on} onClick={() => setOn(!on)}>
          {on ? "Pause" : "Follow"}
        </button>
        <span class={`mark ${on && state === "live" ? "on" : "off"}`} role="status">
          {!on ? "paused" : state === "live" ? "live" : state === "lost" ? "not connected" : state}
        </span>
      </div>
      <Failure error={why} />
      {records.length === 0 && (state === "connecting" || (state === "live" && !quiet)) && <Loading what="evidence" />}
      {records.length === 0 && state === "live" && quiet && <Empty title="No records match.">The list shows new records as Weir writes them.</Empty>}
      {records.length > 0 && (
        <ul class="records">
          {records.map((r) => (
            <Record key={r.id} r={r} />
          ))}
        </ul>
      )}
      {records.length >= most && <p class="dim more">The list shows the newest {most}; an export contains all of them.</p>}
    </>
  );
}

function Record({ r }: { r: Evidence }) {
  return (
    <li>
      <details>
        <summary>
          <strong>{r.kind}</strong> {r.code && <code>{r.code}</code>} <span class="mono wrap">{targetOf(r.payload)}</span> {r.entry && <span class="dim">entry {r.entry}</span>}
        </summary>
        <Code value={r} />
      </details>
      <a class="mono id" href={link("actions", r.action_id)}>
        {r.action_id}
      </a>
      <Time at={r.time} />
    </li>
  );
}

function Export({ params }: { params: Record<string, string> }) {
  const { busy, error, call } = useCall();
  const save = () =>
    call(async () => {
      await get<Page<Evidence>>("/v1/evidence" + query({ ...params, limit: 1 })); // a refusal before the file
      const items = await all<Evidence>("/v1/evidence", { ...params, limit: 1000 }, exported);
      const file = URL.createObjectURL(new Blob(items.map((e) => JSON.stringify(e) + "\n"), { type: "application/x-ndjson" }));
      const a = document.createElement("a");
      a.href = file;
      a.download = `evidence-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.jsonl`;
      a.click();
      setTimeout(() => URL.revokeObjectURL(file), 60_000);
    });
  return (
    <div class="row">
      <Failure error={error} />
      <button type="button" disabled={busy} onClick={() => void save()}>
        {busy ? "Reading…" : "Export"}
      </button>
    </div>
  );
}
