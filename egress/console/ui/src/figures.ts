// Figures in words, and the axes that they are drawn on.
import { useRef } from "preact/hooks";
import { millis } from "./ui";

export const outcomes = ["succeeded", "failed", "denied", "canceled", "expired", "outcome_unknown"] as const;

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });

export const count = (n: number): string => whole.format(n);

export function rate(n: number | null | undefined): string {
  if (n === null || n === undefined || !Number.isFinite(n)) return "–";
  return (n >= 100 ? whole.format(Math.round(n)) : short.format(n)) + "/s";
}

/** A latency; that of a task may be hours. */
export function took(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  if (ms < 120_000) return millis(ms);
  return ms < 7_200_000 ? short.format(ms / 60_000) + " min" : short.format(ms / 3_600_000) + " h";
}

export function share(n: number, of: number): string {
  if (of === 0 || n === 0) return "";
  const p = (100 * n) / of;
  return p < 1 ? "< 1 %" : p > 99 && n < of ? "> 99 %" : Math.round(p) + " %";
}

/** When a step began, as exactly as its length asks for. */
export function moment(at: string, step: number): string {
  const clock = { hour: "2-digit", minute: "2-digit", hour12: false } as const;
  const t = new Date(at);
  if (step < 60) return t.toLocaleTimeString([], { ...clock, second: "2-digit" });
  return step < 3600 ? t.toLocaleTimeString([], clock) : t.toLocaleString("en", { weekday: "short", ...clock });
}

export function length(s: number): string {
  return s < 60 ? `${s} s` : s < 3600 ? `${s / 60} min` : `${s / 3600} h`;
}

export interface Axis {
  /** Where a value lies: 0 at the foot, 1 at the top. */
  at: (v: number) => number;
  ticks: number[];
  text: (v: number) => string;
}

/** The next of 1, 2 and 4, by a power of ten. */
function round(v: number): number {
  if (v <= 0) return 1;
  const ten = 10 ** Math.floor(Math.log10(v));
  const times = [1, 2, 4, 10].find((m) => v <= m * ten * 1.000001) ?? 10;
  return Number((times * ten).toPrecision(3));
}

/** An axis from 0 to a round number. It grows at once, and shrinks when most of it is empty: so
 * it stands still while figures go up and down. A new key begins anew. */
export function useStraight(most: number, key: string, least: number, text: (v: number) => string): Axis {
  const kept = useRef({ key: "", end: 0 });
  if (kept.current.key !== key || most > kept.current.end || most < kept.current.end * 0.3) {
    kept.current = { key, end: Math.max(round(most), least) };
  }
  const { end } = kept.current;
  return { at: (v) => v / end, ticks: [0, end / 2, end], text };
}

/** An axis of powers of ten, for latencies: a call of a millisecond and a task of an hour are
 * both to be read. It shrinks when two powers are empty. */
export function useDecades(values: (number | null)[], key: string): Axis {
  const kept = useRef({ key: "", low: 0, high: 2 });
  let low = Infinity;
  let high = -Infinity;
  for (const v of values) {
    if (v === null || v <= 0) continue;
    low = Math.min(low, Math.floor(Math.log10(v)));
    high = Math.max(high, Math.ceil(Math.log10(v)));
  }
  const k = kept.current;
  if (low > high) [low, high] = k.key === key ? [k.low, k.high] : [0, 2];
  if (high - low < 2) high = low + 2;
  if (k.key !== key || low < k.low || low > k.low + 1 || high > k.high || high < k.high - 1) kept.current = { key, low, high };
  ({ low, high } = kept.current);
  const ticks: number[] = [];
  for (let e = low; e <= high; e += Math.ceil((high - low) / 4)) ticks.push(10 ** e);
  return { at: (v) => Math.min(Math.max((Math.log10(Math.max(v, 1e-9)) - low) / (high - low), 0), 1), ticks, text: power };
}

const power = (ms: number): string => (ms < 1000 ? `${Number(ms.toPrecision(1))} ms` : `${whole.format(ms / 1000)} s`);
