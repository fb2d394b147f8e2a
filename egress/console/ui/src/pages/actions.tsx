import { useEffect, useRef, useState } from "preact/hooks";
import { get, query, Refusal } from "../api";
import { useCall, useLive } from "../live";
import { link, refine, type Route } from "../route";
import type { ActionEntry, ActionPage, Page } from "../types";
import { Badge, Empty, Failure, Loading, millis, Select, Text, Time } from "../ui";
import { kinds, statuses } from "../vocabulary";

const most = 500; // rows on the page; whoever wants more looks for something
const names = ["status", "kind", "entry", "agent", "code", "q"] as const;

export function Actions({ route }: { route: Route }) {
  const filters = Object.fromEntries(names.map((n) => [n, route.params.get(n) ?? ""])) as Record<(typeof names)[number], string>;
  const path = "/v1/actions" + query({ ...filters, limit: 50 });
  const live = useLive<ActionPage>(path + "&count=true");
  const list = useList(path, live.data);
  const older = useCall();
  const set = (name: string) => (v: string) => refine(route, { [name]: v });
  const filtered = names.some((n) => filters[n]);

  return (
    <>
      <div class="head">
        <h1>Actions</h1>
        <div class="row">
          {live.data?.count && <span class="dim">{live.data.count.total} in all</span>}
          <LiveMark error={live.error} word={live.data?.behind ? "catching up" : "live"} />
        </div>
      </div>
      <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
        <Text label="Id" type="search" value={filters.q} placeholder="Text of an id" onChange={set("q")} />
        <Select label="Status" value={filters.status} options={["open", ...statuses]} any="any" onChange={set("status")} />
        <Select label="Kind" value={filters.kind} options={kinds} any="any" onChange={set("kind")} />
        <Text label="Entry" value={filters.entry} onChange={set("entry")} />
        <Text label="Agent" value={filters.agent} onChange={set("agent")} />
        <Text label="Code" value={filters.code} placeholder="DENY_HOST" onChange={(v) => set("code")(v.toUpperCase())} />
      </form>
      <Failure error={live.error} again={live.again} />
      {list.held > 0 && (
        <button type="button" class="fresh" onClick={list.show}>
          {list.held} new
        </button>
      )}
      {!live.data && live.loading ? (
        <Loading what="actions" />
      ) : list.items.length === 0 ? (
        !live.error &&
        (filtered ? (
          <Empty title="No action fits.">
            <button type="button" class="small" onClick={() => refine(route, Object.fromEntries(names.map((n) => [n, ""])))}>
              Show all
            </button>
          </Empty>
        ) : (
          <Empty title="No actions yet.">
            Have one done: <code>weir exec GET http://localhost:8080/</code>. It shows here as soon as it is accepted.
          </Empty>
        ))
      ) : (
        <Table items={list.items} />
      )}
      <Failure error={older.error} />
      {list.next && list.items.length < most && (
        <p class="more">
          <button
            type="button"
            disabled={older.busy}
            onClick={() => void older.call(async () => list.append(await get<Page<ActionEntry>>(path + "&cursor=" + encodeURIComponent(list.next!))))}
          >
            {older.busy ? "Loading…" : "Older"}
          </button>
        </p>
      )}
      {list.items.length >= most && <p class="dim more">These are the newest {most}. Narrow the search to see others.</p>}
    </>
  );
}

export function LiveMark({ error, word = "live" }: { error: Refusal | undefined; word?: string }) {
  return (
    <span class={`mark ${error ? "off" : "on"}`} role="status">
      {error ? "not connected" : word}
    </span>
  );
}

function Table({ items }: { items: ActionEntry[] }) {
  return (
    <table class="rows">
      <thead>
        <tr>
          <th scope="col">Status</th>
          <th scope="col">Action</th>
          <th scope="col">Kind</th>
          <th scope="col">Entry</th>
          <th scope="col" class="num">
            Took
          </th>
          <th scope="col" class="num">
            Accepted
          </th>
        </tr>
      </thead>
      <tbody>
        {items.map((a) => (
          <tr key={a.id}>
            <td>
              <Badge word={a.status} />
            </td>
            <td class="wide">
              <a class="mono id" href={link("actions", a.id)}>
                {a.id}
              </a>
              {a.code && <span class="code-word">{a.code}</span>}
            </td>
            <td>
              {a.kind}
              {a.task_type && <span class="dim"> · {a.task_type}</span>}
            </td>
            <td class={a.entry ? "" : "none"}>{a.entry ?? <span class="dim">–</span>}</td>
            <td class={"num" + (a.duration_ms === undefined ? " none" : "")}>{millis(a.duration_ms)}</td>
            <td class="num">
              <Time at={a.created} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface Shown {
  path: string;
  items: ActionEntry[];
  next: string | undefined;
  waiting: ActionEntry[];
}

/** What is shown of a list that goes on: new actions come in at the top while one looks at the
 * top; whoever has scrolled down is told how many there are, and nothing moves. */
function useList(path: string, page: Page<ActionEntry> | undefined) {
  const [state, set] = useState<Shown>({ path, items: [], next: undefined, waiting: [] });
  const top = useRef(true);
  useEffect(() => {
    const scrolled = () => (top.current = scrollY < 80);
    addEventListener("scroll", scrolled, { passive: true });
    return () => removeEventListener("scroll", scrolled);
  }, []);
  useEffect(() => {
    if (!page) return;
    set((s) => {
      if (s.path !== path) return { path, items: page.items, next: page.next, waiting: [] };
      const fresh = new Map(page.items.map((a) => [a.id, a]));
      const known = new Set(s.items.map((a) => a.id));
      const items = s.items.map((a) => fresh.get(a.id) ?? a);
      const added = page.items.filter((a) => !known.has(a.id));
      if (items.length === 0) return { path, items: page.items, next: page.next, waiting: [] };
      if (added.length === 0) return { ...s, items };
      if (!top.current) return { ...s, items, waiting: added };
      // A page full of news says nothing of what lies between it and what was shown.
      if (added.length === page.items.length) return { path, items: page.items, next: page.next, waiting: [] };
      return { ...s, items: [...added, ...items].slice(0, most), waiting: [] };
    });
  }, [page, path]);
  const mine = state.path === path;
  return {
    items: mine ? state.items : (page?.items ?? []),
    next: mine ? state.next : undefined,
    held: mine ? state.waiting.length : 0,
    show: () => {
      scrollTo({ top: 0 });
      set((s) =>
        s.waiting.length < (page?.items.length ?? 0) ? { ...s, items: [...s.waiting, ...s.items].slice(0, most), waiting: [] } : { path, items: page?.items ?? [], next: page?.next, waiting: [] },
      );
    },
    append: (more: Page<ActionEntry>) =>
      set((s) => {
        const known = new Set(s.items.map((a) => a.id));
        return { ...s, items: [...s.items, ...more.items.filter((a) => !known.has(a.id))].slice(0, most), next: more.next };
      }),
  };
}
