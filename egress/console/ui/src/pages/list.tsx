// A list of actions, newest first, that updates itself.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { query } from "../api";
import { CallLink } from "../call";
import { count } from "../figures";
import { useLive } from "../live";
import { link, refine, type Route } from "../route";
import type { ActionEntry, ActionPage } from "../types";
import { Badge, type Column, Empty, Failure, Field, Head, LiveMark, Loading, millis, Time, tone } from "../ui";
import { label, statuses } from "../vocabulary";
import { usd } from "./completion";

const most = 500; // rows on the page; a search finds older ones

interface List {
  list: Listing;
  /** The page of one action, and the plural name of the items. */
  to: "actions" | "runs";
  what: string;
  filtered: boolean;
  onAll: () => void;
  /** Shown for an empty list without filters. */
  children: ComponentChildren;
}

export function Listed({ list, to, what, filtered, onAll, children }: List) {
  return (
    <>
      <Failure error={list.error} again={list.again} />
      {list.held > 0 && (
        <button type="button" class="fresh" onClick={list.show}>
          {list.held} new
        </button>
      )}
      {!list.items ? (
        !list.error && <Loading what={what} />
      ) : list.items.length === 0 ? (
        filtered ? <Unfit what={what} onAll={onAll} /> : children
      ) : (
        <Table items={list.items} gone={list.gone} to={to} />
      )}
      {list.more && (
        <p class="more">
          <button type="button" disabled={list.busy} onClick={list.older}>
            {list.busy ? "Loading…" : "Older"}
          </button>
        </p>
      )}
      {list.items && list.items.length >= most && <p class="dim more">The list shows the newest {most}. Narrow the search to see others.</p>}
    </>
  );
}

/** The head of a page with a list. */
export function ListHead({ title, list, filtered }: { title: string; list: Listing; filtered: boolean }) {
  return (
    <div class="head">
      <h1>{title}</h1>
      <div class="row">
        {list.total !== undefined && <span class="dim">{filtered ? `${list.total} matching` : `${list.total} in total`}</span>}
        <LiveMark error={list.error} word={list.behind ? "catching up" : "live"} />
      </div>
    </div>
  );
}

/** The filters of a list. The address of the page holds them. */
export function useFilters<N extends string>(route: Route, names: readonly N[]) {
  const of = Object.fromEntries(names.map((n) => [n, route.params.get(n) ?? ""])) as Record<N, string>;
  return {
    of,
    set: (name: N) => (v: string) => refine(route, { [name]: v }),
    put: (change: Partial<Record<N, string>>) => refine(route, change as Record<string, string>),
    some: names.some((n) => of[n]),
    clear: () => refine(route, Object.fromEntries(names.map((n) => [n, ""]))),
  };
}

/** How many of a list have each status. A click shows only those. */
export function Statuses({ filters, status, choose }: { filters: Record<string, string>; status: string; choose: (status: string) => void }) {
  const { data } = useLive<ActionPage>("/v1/actions" + query({ ...filters, status: "", limit: 1, count: "true" }), 5000);
  const by = data?.count?.by ?? {}; // "open": those that are not settled
  const there = ["open", ...statuses].filter((s) => by[s]);
  if (!data?.count?.total) return null;
  return (
    <div class="row chips" role="group" aria-label="By status">
      {there.map((s) => (
        <button key={s} type="button" class={`badge ${tone(s)}`} aria-pressed={s === status} onClick={() => choose(s === status ? "" : s)}>
          {label(s)} {count(by[s] ?? 0)}
        </button>
      ))}
    </div>
  );
}

const spans = ["15m", "1h", "24h", "7d"];

/** The time range of a list: a span up to now, or two instants. */
export function Range({ of, put }: { of: { since: string; until: string }; put: (change: { since: string; until: string }) => void }) {
  const [open, set] = useState(of.until !== "" || (of.since !== "" && !spans.includes(of.since)));
  const pick = (v: string) => (set(v === "range"), v !== "range" && put({ since: v, until: "" }));
  const local = (at: string) => (Number.isNaN(Date.parse(at)) ? "" : new Date(Date.parse(at) - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16));
  const iso = (text: string) => (text ? new Date(text).toISOString() : "");
  return (
    <>
      <Field label="Time">
        {(id) => (
          <select id={id} value={open ? "range" : of.since} onChange={(e) => pick(e.currentTarget.value)}>
            <option value="">any</option>
            {spans.map((v) => (
              <option key={v} value={v}>
                {label(v)}
              </option>
            ))}
            <option value="range">from … to …</option>
          </select>
        )}
      </Field>
      {open && (
        <>
          <Field label="From">{(id) => <input id={id} type="datetime-local" value={local(of.since)} onChange={(e) => put({ ...of, since: iso(e.currentTarget.value) })} />}</Field>
          <Field label="To">{(id) => <input id={id} type="datetime-local" value={local(of.until)} onChange={(e) => put({ ...of, until: iso(e.currentTarget.value) })} />}</Field>
        </>
      )}
    </>
  );
}

function Unfit({ what, onAll }: { what: string; onAll: () => void }) {
  return (
    <Empty title={`No ${what} match the filters.`}>
      <button type="button" class="small" onClick={onAll}>
        Show all
      </button>
    </Empty>
  );
}

const heads: Record<List["to"], Column[]> = { actions: ["Call", "Kind · entry", "HTTP"], runs: ["Run or chat", ["Tokens", "num"], ["Cost", "num"], ["First token", "num"]] };

function Table({ items, gone, to }: { items: ActionEntry[]; gone: ReadonlySet<string>; to: List["to"] }) {
  return (
    <table class="rows">
      <Head of={["Status", ...heads[to], "Caller", ["Duration", "num"], ["Accepted", "num"]]} />
      <tbody>
        {items.map((a) => (
          <tr key={a.id} class={gone.has(a.id) ? "gone" : ""}>
            <td>{gone.has(a.id) ? <Badge word="changed" as="plain" /> : <Badge word={a.status} />}</td>
            <td class="wide title">
              <CallLink a={a} to={to} />
              {a.code && <span class="code-word">{a.code}</span>}
              {a.resolution && <span class="code-word">resolved: {a.resolution.replace("_", " ")}</span>}
              {a.task && a.task !== a.id && (
                <span class="code-word">
                  for <a href={link("tasks", a.task)}>{a.task}</a>
                </span>
              )}
            </td>
            {to === "runs" ? <Used a={a} /> : <Kind a={a} />}
            <Optional text={[a.caller, a.kind === "run" ? undefined : a.agent].filter(Boolean).join(" · ")} />
            <Optional num text={a.duration_ms === undefined ? "" : millis(a.duration_ms)} />
            <td class="num">
              <Time at={a.created} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A cell that a phone leaves out if it is empty. */
function Optional({ text, num, name }: { text: string; num?: boolean; name?: string }) {
  return (
    <td class={(num ? "num" : "brief") + (text ? "" : " none")} data-name={name} title={num ? undefined : text}>
      {text || <span class="dim">–</span>}
    </td>
  );
}

function Kind({ a }: { a: ActionEntry }) {
  return (
    <>
      <td class="brief" title={a.entry}>
        {a.kind}
        {(a.entry || a.task_type) && <span class="dim"> · {a.entry || a.task_type}</span>}
      </td>
      <Optional text={a.http_status ? String(a.http_status) : ""} />
    </>
  );
}

/** Tokens, cost and time to the first token of a chat. A run has none of them. */
function Used({ a }: { a: ActionEntry }) {
  const tokens = a.tokens_in || a.tokens_out ? `${count(a.tokens_in ?? 0)} → ${count(a.tokens_out ?? 0)}` : "";
  return (
    <>
      <Optional num name="tokens" text={tokens} />
      <Optional num text={a.cost_usd ? usd(a.cost_usd * 1e9) : ""} />
      <Optional num name="first token" text={a.ttft_ms ? millis(a.ttft_ms) : ""} />
    </>
  );
}

const step = 50; // rows that are read at first, and more each time

interface Shown {
  path: string;
  page: ActionPage | undefined; // the newest that was read
  items: ActionEntry[];
  gone: ReadonlySet<string>; // those of them that do not fit any more
}

export type Listing = ReturnType<typeof useListing>;

/** A list that is read repeatedly. At the top of the page it shows the newest rows. After the reader
 * scrolls down no row moves: the page counts new rows, and marks rows that no longer match. */
export function useListing(filters: Record<string, string>) {
  const path = "/v1/actions" + query(filters);
  const [wanted, want] = useState({ path, rows: step });
  const rows = wanted.path === path ? wanted.rows : step;
  const live = useLive<ActionPage>("/v1/actions" + query({ ...filters, limit: rows, count: "true" }));
  const [state, set] = useState<Shown>({ path, page: undefined, items: [], gone: new Set() });
  const top = useRef(true);
  useEffect(() => {
    const scrolled = () => (top.current = scrollY < 80);
    addEventListener("scroll", scrolled, { passive: true });
    return () => removeEventListener("scroll", scrolled);
  }, []);
  useEffect(() => {
    const page = live.data;
    if (page) set((s) => (s.path !== path || s.items.length === 0 ? whole(path, page) : !top.current ? kept(s, page) : page.behind ? joined(s, page) : whole(path, page)));
  }, [live.data, path]);
  const mine = state.path === path && state.page ? state : undefined;
  const shown = new Set(mine?.items.map((a) => a.id));
  const held = mine?.page?.items.filter((a) => !shown.has(a.id)).length ?? 0;
  return {
    items: mine?.items,
    gone: state.gone,
    total: mine?.page?.count?.total,
    behind: mine?.page?.behind,
    error: live.error,
    again: live.again,
    held,
    more: !!mine?.page?.next && rows < most,
    busy: live.loading && rows > step,
    older: () => want({ path, rows: Math.min(rows + step, most) }),
    show: () => {
      scrollTo({ top: 0 });
      set((s) => (s.page ? whole(s.path, s.page) : s));
    },
  };
}

const whole = (path: string, page: ActionPage): Shown => ({ path, page, items: page.items, gone: new Set() });

/** While the index is behind, its page may lack rows that are already shown; they stay. */
function joined(s: Shown, page: ActionPage): Shown {
  const items = kept(s, page).items;
  const shown = new Set(items.map((a) => a.id));
  return { ...s, page, items: [...page.items.filter((a) => !shown.has(a.id)), ...items].slice(0, most), gone: new Set() };
}

/** Updates the shown rows in place and appends older ones. */
function kept(s: Shown, page: ActionPage): Shown {
  const fresh = new Map(page.items.map((a) => [a.id, a]));
  const last = page.items.at(-1);
  const reach = page.next && last ? s.items.findIndex((a) => a.id === last.id) : s.items.length;
  const gone = new Set(page.behind ? s.gone : s.items.slice(0, Math.max(reach, 0)).flatMap((a) => (fresh.has(a.id) ? [] : [a.id])));
  const lowest = page.items.findLastIndex((a) => s.items.some((b) => b.id === a.id));
  const older = lowest < 0 ? [] : page.items.slice(lowest + 1);
  return { ...s, page, gone, items: [...s.items.map((a) => fresh.get(a.id) ?? a), ...older].slice(0, most) };
}
