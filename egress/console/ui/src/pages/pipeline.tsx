import type { ComponentChildren } from "preact";
import { count, outcomes, rate, share, took } from "../figures";
import { link } from "../route";
import type { ActionPage, Stats } from "../types";
import { Time } from "../ui";

/** The open actions by status. Up to a hundred are counted by status; above that, only their number
 * is known. */
interface Open {
  all: number;
  told: boolean;
  accepted: number;
  started: number;
  waiting: number;
  oldest: string | undefined; // of the queued ones, or of all
}

export function openOf(stats: Stats, page: ActionPage | undefined): Open {
  const items = page?.items ?? [];
  const of = (status: string) => items.filter((a) => a.status === status);
  const told = page !== undefined && !page.next;
  const fresh = of("accepted");
  return {
    all: told ? items.length : stats.open.count,
    told,
    accepted: fresh.length,
    started: of("started").length,
    waiting: of("waiting").length,
    oldest: told ? fresh.at(-1)?.created : stats.open.oldest,
  };
}

/** Accepted actions per second, over a time that may not have ended. */
export function acceptedRate(s: Stats): number {
  const until = Math.min(Date.parse(s.until), s.as_of ? Date.parse(s.as_of) : Infinity);
  return s.total.accepted / Math.max((until - Date.parse(s.since)) / 1000, 1);
}

/** The path of an action: ingress, log, workers, outcomes. Rates are of the last minute, other figures
 * of the span. */
export function Pipeline({ stats, minute, page, span, since }: { stats: Stats; minute: Stats | undefined; page: ActionPage | undefined; span: string; since: string }) {
  const open = openOf(stats, page);
  const came = minute ? acceptedRate(minute) : undefined;
  const went = minute?.total.rate;
  const { total } = stats;
  return (
    <ol class="pipe" aria-label="The pipeline">
      <Stage name="Ingress" draws="M3 12h11M10 7l5 5-5 5M19 4v16" moves={came}>
        <Big figure={rate(came)}>accepted, last minute</Big>
        <Small name={`in ${span}`}>{count(total.accepted)}</Small>
      </Stage>
      <Stage name="Log" draws="M4 6h16M4 12h16M4 18h16" moves={went}>
        {open.told ? (
          <Big figure={count(open.accepted)} to={link("actions", "", { status: "accepted" })}>
            queued
          </Big>
        ) : (
          <Big figure={count(open.all)} to={link("actions", "", { status: "open" })}>
            open
          </Big>
        )}
        <Small name="oldest wait">
          <Time at={open.oldest} />
        </Small>
        <Small name={<a href={link("actions", "", { status: "waiting" })}>waiting</a>}>{atLeast(open, open.waiting)}</Small>
      </Stage>
      <Stage name="Workers" draws="M12 3v4M12 17v4M3 12h4M17 12h4M12 8.500a3.500 3.500 0 1 0 0 7 3.500 3.500 0 0 0 0-7" moves={went}>
        <Big figure={atLeast(open, open.started)} to={link("actions", "", { status: "started" })}>
          running
        </Big>
        <Small name={`p50 in ${span}`}>{took(total.p50_ms)}</Small>
        <Small name={`p99 in ${span}`}>{took(total.p99_ms)}</Small>
      </Stage>
      <Stage name="Outcomes" draws="M3 12h6l6-7h6M9 12h12M9 12l6 7h6">
        <Big figure={rate(went)}>settled, last minute</Big>
        <Mix of={total.outcomes} all={total.settled} span={span} since={since} />
      </Stage>
    </ol>
  );
}

/** A lower bound, if not every open action was read. */
const atLeast = (open: Open, n: number): string => (open.told ? count(n) : n > 0 ? count(n) + "+" : "–");

function Stage({ name, draws, moves, children }: { name: string; draws: string; moves?: number | undefined; children: ComponentChildren }) {
  const last = name === "Outcomes";
  return (
    <li class="stage card" aria-label={name}>
      <h2>
        <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
          <path d={draws} />
        </svg>
        {name}
      </h2>
      {children}
      {!last && (
        <svg class={`arrow${moves ? " moving" : ""}`} viewBox="0 0 40 16" width="40" height="16" aria-hidden="true">
          <path d="M3 8h30" />
          <path class="head" d="M30 3l6 5-6 5" />
        </svg>
      )}
    </li>
  );
}

function Big({ figure, to, children }: { figure: string; to?: string; children: ComponentChildren }) {
  return (
    <p class="big">
      <b>{figure}</b> {to ? <a href={to}>{children}</a> : <span class="dim">{children}</span>}
    </p>
  );
}

function Small({ name, children }: { name: ComponentChildren; children: ComponentChildren }) {
  return (
    <p class="small-figure">
      <span class="dim">{name}</span> <span>{children}</span>
    </p>
  );
}

/** The outcomes: a bar of their shares, and a link to each. */
function Mix({ of, all, span, since }: { of: Record<string, number>; all: number; span: string; since: string }) {
  return (
    <>
      <Small name={`in ${span}`}>{count(all)}</Small>
      <Shares of={of} />
      <ul class="mix" aria-label={`Outcomes in ${span}`}>
        {outcomes.map((o) => (
          <li key={o}>
            <a href={link("actions", "", { status: o, since })}>
              <span class={`swatch c-${o}`} aria-hidden="true" />
              {o.replaceAll("_", " ")}
            </a>
            <span class="dim">{share(of[o] ?? 0, all)}</span>
            <b>{count(of[o] ?? 0)}</b>
          </li>
        ))}
      </ul>
    </>
  );
}

export function Shares({ of }: { of: Record<string, number> }) {
  return (
    <div class="shares" aria-hidden="true">
      {outcomes
        .filter((o) => of[o])
        .map((o) => (
          <span key={o} class={`c-${o}`} style={{ flexGrow: String(of[o]) }} />
        ))}
    </div>
  );
}
