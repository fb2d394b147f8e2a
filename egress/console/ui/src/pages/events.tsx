// The events of an action as text.
import { Offset } from "../call";
import { link } from "../route";
import type { ActionEvent } from "../types";
import { Badge } from "../ui";

/** Events after which the action must be read again. */
const moving = new Set(["settled", "resolution", "attempt", "cancel", "waiting"]);
export const matters = (e: ActionEvent): boolean => moving.has(e.type);

export function Gone({ of }: { of: { gone: boolean } }) {
  return of.gone ? <p class="dim">Earlier events are no longer stored: the log drops events that are older than its history.</p> : null;
}

export function nameOf(e: ActionEvent): string {
  if (e.settled) return e.type;
  const t = e.attempt ?? e.attempted;
  if (!t) return e.type;
  return (t.probe ? `probe ${t.number} of attempt ${t.probe}` : `attempt ${t.number}`) + (e.attempt ? "" : " ended");
}

export function Line({ e, from }: { e: ActionEvent; from: string }) {
  return (
    <li class={`event ${e.type}`}>
      <span class="what">
        <strong>{nameOf(e)}</strong> <Said e={e} />
      </span>
      <Offset at={e.time} from={from} />
    </li>
  );
}

export function Said({ e }: { e: ActionEvent }) {
  if (e.attempt) {
    const d = e.attempt.decision;
    return (
      <>
        {[e.attempt.hop && `redirect ${e.attempt.hop}`, e.attempt.step && `step ${e.attempt.step}`].filter(Boolean).join(", ")} {d.entry && <>entry {d.entry}</>}
      </>
    );
  }
  if (e.settled) {
    return (
      <>
        <Badge word={e.settled.outcome} /> {e.attempted?.status && `attempt ${e.attempted.number}: ${e.attempted.status}`} {e.settled.code && <code>{e.settled.code}</code>}
      </>
    );
  }
  if (e.attempted) {
    return (
      <>
        {e.attempted.status ?? ""} {e.attempted.code && <code>{e.attempted.code}</code>}
        {e.attempted.effect?.replaceAll("_", " ")}
        {e.attempted.sent ? "" : " not sent"} {e.attempted.traffic?.mocked && `mocked by ${e.attempted.traffic.mocked}`}
      </>
    );
  }
  if (e.waiting) return <>for {e.waiting.for.replaceAll("_", " ")}</>;
  if (e.superseded) return <>by <a href={link("actions", e.superseded.by)}>{e.superseded.by}</a></>;
  if (e.resolution) return <>{e.resolution.effect.replaceAll("_", " ")}</>;
  if (e.task) return <>{e.task.what.replaceAll("_", " ")}</>;
  if (e.data !== undefined) return <span class="mono dim cut">{JSON.stringify(e.data)}</span>;
  return null;
}
