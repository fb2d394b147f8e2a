// The board of tasks, by state, updated live.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, query } from "../api";
import { useReading } from "../live";
import { ended, states, type Task, type TaskPage, type TaskState } from "../tasks";
import type { ActionPage } from "../types";
import { useMay } from "../who";

const most = 500; // cards in one column

export interface Column {
  tasks: Task[];
  more: boolean; // older ones exist
  behind: number; // log records that the index has not read yet
  count?: number; // of all that there are
}

export type Columns = Record<TaskState, Column>;

const open = states.filter((s) => !ended(s));
const over = states.filter(ended);
const first = (s: TaskState): number => (ended(s) ? 20 : 50);

const each = <T>(f: (s: TaskState) => T): Record<TaskState, T> => Object.fromEntries(states.map((s) => [s, f(s)])) as Record<TaskState, T>;

/** The newest tasks in a state. A page of the list may be short and still have a next. */
async function read(status: TaskState, want: number, signal: AbortSignal): Promise<Column> {
  const tasks: Task[] = [];
  let cursor: string | undefined;
  let behind = 0;
  for (let pages = 0; pages < 20; pages++) {
    const page: TaskPage = await get("/v1/tasks" + query({ status, limit: Math.min(want - tasks.length, 100), cursor }), signal);
    tasks.push(...page.items);
    cursor = page.next;
    behind = page.behind ?? 0;
    if (!cursor || tasks.length >= want) break;
  }
  return { tasks, more: !!cursor, behind };
}

/** The numbers of ended tasks by state, from the index. */
async function count(signal: AbortSignal): Promise<Partial<Record<TaskState, number>>> {
  const by = (await get<ActionPage>("/v1/actions?kind=task&limit=1&count=true", signal)).count?.by ?? {};
  return {
    Completed: by["succeeded"] ?? 0,
    Failed: (by["failed"] ?? 0) + (by["denied"] ?? 0) + (by["outcome_unknown"] ?? 0),
    Canceled: by["canceled"] ?? 0,
    Expired: by["expired"] ?? 0,
  };
}

/** Reads all columns. Columns of ended tasks are read again if their number has changed, or if an
 * open task has ended. */
async function round(before: Columns | undefined, want: Record<TaskState, number>, counted: boolean, signal: AbortSignal): Promise<Columns> {
  const [counts, ...fresh] = await Promise.all([counted ? count(signal) : undefined, ...open.map((s) => read(s, want[s], signal))]);
  const there = new Set(fresh.flatMap((c) => c.tasks.map((t) => t.id)));
  const left = !before || open.some((s) => before[s].tasks.some((t) => !there.has(t.id)));
  const stale = (s: TaskState) => left || !counts || before[s].behind > 0 || before[s].count !== counts[s] || (before[s].more && before[s].tasks.length < want[s]);
  const columns = await Promise.all(over.map((s) => (stale(s) ? read(s, want[s], signal) : before![s])));
  const out = { ...Object.fromEntries(open.map((s, i) => [s, fresh[i]!])), ...Object.fromEntries(over.map((s, i) => [s, { ...columns[i]!, count: counts?.[s] }])) } as Columns;
  // A task that ended during the reads belongs to one column only.
  const gone = new Set(over.flatMap((s) => out[s].tasks.map((t) => t.id)));
  for (const s of open) out[s] = { ...out[s], tasks: out[s].tasks.filter((t) => !gone.has(t.id)) };
  return out;
}

/** Updates each task in place, and counts the tasks that belong elsewhere. */
function inPlace(shown: Columns, fresh: Columns): { columns: Columns; held: number } {
  const now = new Map(states.flatMap((s) => fresh[s].tasks.map((t) => [t.id, t])));
  const columns = each((s) => ({ ...shown[s], count: fresh[s].count, behind: fresh[s].behind, tasks: shown[s].tasks.map((t) => now.get(t.id) ?? t) }));
  const at = new Map(states.flatMap((s) => shown[s].tasks.map((t) => [t.id, s])));
  return { columns, held: [...now.values()].filter((t) => at.get(t.id) !== t.status).length };
}

/** The user is reading: the page is scrolled, or a card has the focus. */
const reading = (): boolean => scrollY >= 80 || !!document.activeElement?.closest(".task");

/** The board. While the user reads, no card moves: held counts the pending moves. */
export function useBoard() {
  const counted = useMay("actions:read");
  const want = useRef(each(first));
  const before = useRef<Columns | undefined>(undefined);
  const asked = useRef({ older: 0, shown: 0 }); // requests for older tasks, and those answered
  const live = useReading<{ columns: Columns; older: number }>(
    "the board",
    async (signal) => {
      const older = asked.current.older;
      before.current = await round(before.current, want.current, counted, signal);
      return { columns: before.current, older };
    },
    2000,
    4,
  );
  const [state, set] = useState<{ columns?: Columns; held: number }>({ held: 0 });
  useEffect(() => {
    if (!live.data) return;
    const { columns: fresh, older } = live.data;
    const free = older > asked.current.shown || !reading();
    asked.current.shown = older;
    set((s) => (free || !s.columns ? { columns: fresh, held: 0 } : inPlace(s.columns, fresh)));
  }, [live.data]);
  return {
    ...state,
    error: live.error,
    again: live.again,
    behind: state.columns ? Math.max(...states.map((s) => state.columns![s].behind)) : 0,
    show: () => {
      scrollTo({ top: 0 });
      if (live.data) set({ columns: live.data.columns, held: 0 });
    },
    older: (s: TaskState) => {
      want.current[s] = Math.min(most, want.current[s] + first(s));
      asked.current.older++;
      live.again();
    },
    full: (s: TaskState): boolean => want.current[s] >= most,
  };
}
