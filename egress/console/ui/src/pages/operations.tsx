import { useState } from "preact/hooks";
import { post, Refusal } from "../api";
import { useCall, useLive } from "../live";
import type { Operation, OperationsView, Policy, Target } from "../types";
import { Badge, Dialog, Empty, Failure, Field, Head, LiveMark, Loading, Select, Time } from "../ui";
import { kinds } from "../vocabulary";
import { useOperator } from "../who";

const states: Record<string, [string, string]> = { asked: ["asked to wait", "doubt"], open: ["breaker open", "bad"], trying: ["breaker half open", "busy"] };
const about = (t: Target): string => (t.entry ? `entry ${t.entry}` : t.destination ? t.destination : t.tenant ? `tenant ${t.tenant}` : `kind ${t.kind}`);
const target = ({ entry, destination, tenant, kind }: Target): Target => ({ entry, destination, tenant, kind });

/** Calls that operators paused or pinned, and destinations that Weir does not call as usual. */
export function Operations() {
  const operator = useOperator();
  const live = useLive<OperationsView>(operator ? "/v1/operations" : undefined);
  const [holding, hold] = useState(false);
  const { busy, error, call } = useCall();
  if (!operator) return <Empty title="This token may not read operations.">They need an admin of the tenant default.</Empty>;
  const v = live.data;
  const lift = (o: Operation) => call(() => post(`/v1/operations/${o.do === "pause" ? "resume" : "unpin"}`, target(o))).then(live.again);
  return (
    <>
      <div class="head">
        <h1>Operations</h1>
        <div class="row">
          <LiveMark error={live.error} />
          <button type="button" class="primary" onClick={() => hold(true)}>
            Pause or pin calls
          </button>
        </div>
      </div>
      <Failure error={live.error} again={live.again} />
      <Failure error={error} />
      {!v ? (
        !live.error && <Loading what="operations" />
      ) : (
        <>
          <section class="card" aria-labelledby="h-held">
            <h2 id="h-held">Paused and pinned by operators</h2>
            {v.items.length === 0 ? (
              <p class="dim">No call is paused or pinned.</p>
            ) : (
              <table class="rows">
                <Head of={["State", "Calls of", "Reason", "By", ["Since", "num"], ["Release", "hidden"]]} />
                <tbody>
                  {v.items.map((o) => (
                    <tr key={o.do + about(o)}>
                      <td>
                        <Badge word={o.do === "pause" ? "paused" : `pinned ${o.state}`} as={o.state === "closed" ? "plain" : "doubt"} />
                      </td>
                      <td class="wide">{about(o)}</td>
                      <td class={"wide" + (o.reason ? "" : " none")}>{o.reason}</td>
                      <td>{o.by}</td>
                      <td class="num">
                        <Time at={o.at} />
                      </td>
                      <td class="num">
                        <button type="button" class="small" disabled={busy} aria-label={`${o.do === "pause" ? "Resume" : "Unpin"} ${about(o)}`} onClick={() => void lift(o)}>
                          {o.do === "pause" ? "Resume" : "Unpin"}
                        </button>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )}
          </section>
          <section class="card" aria-labelledby="h-destinations">
            <h2 id="h-destinations">Destinations</h2>
            {v.destinations.length === 0 ? (
              <p class="dim">Weir calls all destinations as usual.</p>
            ) : (
              <table class="rows">
                <Head of={["State", "Destination", "Entry", ["Failures in a row", "num"], ["Next call", "num"]]} />
                <tbody>
                  {v.destinations.map((d) => (
                    <tr key={d.entry + d.destination}>
                      <td>
                        <Badge word={states[d.state]?.[0] ?? d.state} as={states[d.state]?.[1] ?? "plain"} />
                      </td>
                      <td class="wide mono">
                        {d.destination}
                        {d.tenants && <div class="dim">for {d.tenants.join(", ")}</div>}
                      </td>
                      <td>{d.entry}</td>
                      <td class="num" data-name="failures">
                        {d.failures ?? 0}
                      </td>
                      <td class="num">
                        <Time at={d.until} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )}
          </section>
        </>
      )}
      {holding && <Hold onClose={() => (hold(false), live.again())} />}
    </>
  );
}

const deeds = { pause: "Pause: calls wait", "pin open": "Pin open: the destination is not called", "pin closed": "Pin closed: the destination is called despite failures" };

function Hold({ onClose }: { onClose: () => void }) {
  const policy = useLive<Policy>("/v1/policy", 0);
  const [deed, setDeed] = useState<keyof typeof deeds>("pause");
  const [by, setBy] = useState<keyof Target>("entry");
  const [name, setName] = useState("");
  const [reason, setReason] = useState("");
  const { busy, error, call } = useCall();
  const targets: (keyof Target)[] = deed === "pause" ? ["entry", "destination", "tenant", "kind"] : ["entry", "destination"];
  const known = by === "entry" ? [...(policy.data?.entries.map((e) => e.name) ?? []), ...(policy.data?.allowed_hosts.map((h) => `host:${h}`) ?? [])] : by === "kind" ? [...kinds] : undefined;
  const send = () =>
    call(async () => {
      if (!targets.includes(by)) throw new Refusal(0, "INVALID", "A pin is for an entry or a destination. Choose one of them.");
      const [what, state] = deed.split(" ");
      await post(`/v1/operations/${what}`, { [by]: name, ...(state && { state }), ...(reason && { reason }) });
      onClose();
    });
  return (
    <Dialog title="Pause or pin calls" onClose={() => busy || onClose()}>
      <form class="filing" onSubmit={(e) => (e.preventDefault(), void send())}>
        <Field label="Operation">
          {(id) => (
            <select id={id} value={deed} onChange={(e) => setDeed(e.currentTarget.value as keyof typeof deeds)}>
              {Object.entries(deeds).map(([v, text]) => (
                <option key={v} value={v}>
                  {text}
                </option>
              ))}
            </select>
          )}
        </Field>
        <div class="filters">
          <Select label="Calls of" value={by} options={targets} onChange={(v) => (setBy(v as keyof Target), setName(""))} />
          {known ? (
            <Select label="Name" value={name} options={known} any="choose one" onChange={setName} />
          ) : (
            <Field label="Name">{(id) => <input id={id} value={name} placeholder={by === "tenant" ? "acme" : "https://api.example.com"} spellcheck={false} onInput={(e) => setName(e.currentTarget.value)} />}</Field>
          )}
        </div>
        <Field label="Reason" hint="operators see it">{(id) => <input id={id} value={reason} maxLength={256} onInput={(e) => setReason(e.currentTarget.value)} />}</Field>
        <Failure error={error} />
        <footer>
          <button type="submit" class="danger" disabled={busy || !name}>
            {deed === "pause" ? "Pause" : "Pin"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
