import type { ComponentChildren } from "preact";
import type { Contract, NeverRetry, PolicyEntry } from "../types";

/** The delivery contract and the limits of an entry, one line each. */
export function Delivery({ of: e }: { of: PolicyEntry }) {
  const lines: [string, string | undefined][] = [
    ["Limits", limits(e)],
    ["Keys", keys(e)],
    ["Retry", e.retry && schedule(e.retry.attempts, e.retry.base, e.retry.cap, e.retry.on)],
    ["Never retry", never(e.never_retry)],
    ["Probe", e.reconcile && `${e.reconcile.method} ${e.reconcile.url} within ${e.reconcile.within}`],
    ["Schema", e.response_schema?.mode],
  ];
  const shown = lines.filter(([, v]) => v);
  if (shown.length === 0) return <td class="none dim">–</td>;
  return (
    <td data-name="delivery">
      {shown.map(([k, v]) => (
        <div key={k}>
          <span class="dim">{k}</span> {v}
        </div>
      ))}
    </td>
  );
}

/** The facts of the contract of one call. */
export function contractFacts(c: Contract | undefined): [string, ComponentChildren][] {
  if (!c) return [];
  const key = { caller: "the caller's", derived: "derived by Weir" }[c.key];
  return [
    ["Retries", c.attempts > 1 ? schedule(c.attempts, c.base, c.cap, c.retry_on.length > 0 ? c.retry_on : ["no status: only if nothing was sent"]) : "none"],
    ["Never retried", never(c.never_retry)],
    ["Key", key && [key, c.key_header && `in ${c.key_header}`, c.key_ttl && `for ${c.key_ttl}`, c.requires_key && "required"].filter(Boolean).join(", ")],
    ["Probe", c.probe && "after a lost answer"],
    ["Response schema", c.response_schema],
  ];
}

function limits(e: PolicyEntry): string | undefined {
  return [e.limits?.rate, e.limits?.concurrency && `${e.limits.concurrency} at a time`].filter(Boolean).join(", ") || undefined;
}

function keys(e: PolicyEntry): string | undefined {
  if (!e.upstream_idempotency_ttl) return undefined;
  return [`for ${e.upstream_idempotency_ttl}`, e.idempotency_header && `in ${e.idempotency_header}`, e.derives_key && "derived", e.requires_key && "required"].filter(Boolean).join(", ");
}

function schedule(attempts: number, base: string, cap: string, on: (number | string)[] | undefined): string {
  return `${attempts} attempts, ${base} to ${cap} apart` + (on ? `, after ${on.join(", ")}` : "");
}

function never(n: NeverRetry | undefined): string | undefined {
  if (!n) return undefined;
  return [...(n.status ?? []), ...Object.entries(n.header ?? {}).map(([k, v]) => `${k}: ${v}`)].join(", ");
}
