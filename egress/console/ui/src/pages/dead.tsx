import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { all, post, Refusal } from "../api";
import { CallLink } from "../call";
import { useCall, useReading } from "../live";
import type { DeadLetter } from "../types";
import { Badge, Dialog, Empty, Failure, Field, Head, LiveMark, Loading, Select, Time } from "../ui";
import { kinds } from "../vocabulary";
import { useMay } from "../who";

const most = 1000;

const newest = async () => (await all<DeadLetter>("/v1/dead-letters", { limit: 500 }, most)).reverse();

export function Dead() {
  const { data: letters, error, again } = useReading("dead letters", newest, 3000);
  const [kind, setKind] = useState("");
  const [reason, setReason] = useState("");
  const [done, setDone] = useState<ReadonlySet<number>>(new Set());
  const [bulk, setBulk] = useState(false);
  const may = useMay("admin");
  const { busy, error: refused, call } = useCall();
  const fits = useMemo(() => letters?.filter((l) => (!kind || l.kind === kind) && (!reason || l.reason === reason)) ?? [], [letters, kind, reason]);
  const reasons = useMemo(() => count(letters ?? []), [letters]);
  const redrive = (l: DeadLetter) => post("/v1/dead-letters/redrive", { sequence: l.seq }).then(() => setDone((s) => new Set([...s, l.seq])));

  return (
    <>
      <div class="head">
        <h1>Dead letters</h1>
        <LiveMark error={error} />
      </div>
      <p class="dim">Messages that no retry can help. Their actions have failed. A redrive creates a new action with the same payload.</p>
      <Failure error={error} again={again} />
      <Failure error={refused} />
      {!letters ? (
        !error && <Loading what="dead letters" />
      ) : letters.length === 0 ? (
        <Empty title="No dead letters.">Workers have processed every message.</Empty>
      ) : (
        <>
          <div class="filters">
            <Select label="Kind" value={kind} options={kinds} any="any" onChange={setKind} />
            <Field label="Reason">
              {(id) => (
                <select id={id} value={reason} onChange={(e) => setReason(e.currentTarget.value)}>
                  <option value="">any</option>
                  {reasons.map(([r, n]) => (
                    <option key={r} value={r}>
                      {r} ({n})
                    </option>
                  ))}
                </select>
              )}
            </Field>
            <button type="button" disabled={!may || fits.length === 0} onClick={() => setBulk(true)}>
              Redrive {fits.length}
            </button>
          </div>
          {!may && <p class="dim">A redrive needs the scope admin.</p>}
          <table class="rows">
            <Head of={["Reason", "Action", "Kind", ["Dead-lettered", "num"], ["Redrive", "hidden"]]} />
            <tbody>
              {fits.slice(0, 300).map((l) => (
                <tr key={l.seq}>
                  <td>
                    <Badge word={l.code} as="bad" /> {l.reason}
                  </td>
                  <td class="wide">
                    <CallLink a={{ ...l, id: l.action_id }} to="actions" />
                  </td>
                  <td>{l.kind}</td>
                  <td class="num">
                    <Time at={l.time} />
                  </td>
                  <td class="num">
                    {done.has(l.seq) ? (
                      <span class="good-text">redriven</span>
                    ) : (
                      <button type="button" class="small" disabled={!may || busy} aria-label={`Redrive ${l.action_id}`} onClick={() => void call(() => redrive(l))}>
                        Redrive
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          {fits.length > 300 && <p class="dim more">The list shows 300 of {fits.length}.</p>}
        </>
      )}
      {bulk && <Bulk letters={fits.filter((l) => !done.has(l.seq))} redrive={redrive} onClose={() => setBulk(false)} />}
    </>
  );
}

function count(letters: DeadLetter[]): [string, number][] {
  const of = new Map<string, number>();
  for (const l of letters) of.set(l.reason, (of.get(l.reason) ?? 0) + 1);
  return [...of].sort((a, b) => b[1] - a[1]);
}

/** Redrives many at a given rate, until all are done, one is refused or the user stops it. */
function Bulk({ letters, redrive, onClose }: { letters: DeadLetter[]; redrive: (l: DeadLetter) => Promise<unknown>; onClose: () => void }) {
  const [queue] = useState(letters);
  const [rate, setRate] = useState(5);
  const [made, setMade] = useState(0);
  const [state, setState] = useState<"ready" | "running" | "stopped" | "done">("ready");
  const [error, setError] = useState<Refusal>();
  const stop = useRef(false);
  useEffect(() => () => void (stop.current = true), []);
  const run = async () => {
    stop.current = false;
    setState("running");
    setError(undefined);
    for (let n = made; n < queue.length; n++) {
      const due = performance.now() + 1000 / rate;
      try {
        await redrive(queue[n]!);
      } catch (cause) {
        if (cause instanceof Refusal) setError(cause);
        return setState("stopped");
      }
      setMade(n + 1);
      if (stop.current) return setState("stopped");
      await new Promise((go) => setTimeout(go, Math.max(0, due - performance.now())));
    }
    setState("done");
  };
  return (
    <Dialog title={`Redrive ${queue.length}?`} onClose={onClose}>
      <p>Weir creates a new action for each message and links it to the old one. It fails again unless the cause is fixed.</p>
      <Field label="Per second" hint="maximum">
        {(id) => <input id={id} type="number" min={1} max={50} value={rate} disabled={state === "running"} onInput={(e) => setRate(Math.min(50, Math.max(1, Number(e.currentTarget.value) || 1)))} />}
      </Field>
      <progress max={queue.length} value={made} aria-label="Redriven" />
      <p role="status">
        {made} of {queue.length}
        {state === "done" && ", done"}
      </p>
      <Failure error={error} />
      <footer>
        {state === "running" ? (
          <button type="button" onClick={() => (stop.current = true)}>
            Stop
          </button>
        ) : state === "done" ? (
          <button type="button" onClick={onClose}>
            Close
          </button>
        ) : (
          <button type="button" class="primary" onClick={() => void run()}>
            {state === "stopped" ? "Continue" : "Redrive"}
          </button>
        )}
      </footer>
    </Dialog>
  );
}
