// The documents of tasks, and how the pages word them.
import type { Page } from "./types";

export const states = ["Queued", "Running", "Completed", "Failed", "Canceled", "Expired"] as const;
export type TaskState = (typeof states)[number];

export const ended = (s: TaskState): boolean => s !== "Queued" && s !== "Running";

const tones: Record<TaskState, string> = { Queued: "plain", Running: "busy", Completed: "good", Failed: "bad", Canceled: "plain", Expired: "bad" };
export const toneOf = (s: TaskState): string => tones[s] ?? "plain";

export interface Budget {
  requests?: number;
  tokens?: number;
  usd?: number;
}

export interface Inquiry {
  n: number;
  question: string;
  asked: string;
  answer?: string;
  answered?: string;
  by?: string;
}

export interface Task {
  id: string;
  status: TaskState;
  description: string;
  repo: string;
  repo_url: string;
  base_ref?: string;
  branch: string;
  base?: string;
  head?: string;
  moved: boolean;
  pushes: number;
  model?: string;
  budget?: Budget;
  force_push?: boolean;
  pool: string;
  metadata?: Record<string, string>;
  created: string;
  started?: string;
  deadline: string;
  ended?: string;
  lease?: number;
  holder?: string;
  inquiries?: Inquiry[];
  cancel_requested?: boolean;
  result?: string;
  reason?: string;
  code?: string;
  message?: string;
}

/** A page of tasks, of an index that may be behind the log by so many records. */
export interface TaskPage extends Page<Task> {
  behind?: number;
}

export interface NewTask extends Task {
  token?: string;
}

export interface TaskUpdate {
  task_id: string;
  status: TaskState;
  what: string;
  time: string;
  n: number;
  lease?: number;
  inquiry?: number;
  head?: string;
  push?: string;
  code?: string;
  reason?: string;
}

export interface Repo {
  name: string;
  mode: "hosted" | "proxy";
  default_branch: string;
  url?: string;
}

export type RepoPage = Page<Repo>;

/** What a push came to, as its action has it. */
export interface PushResult {
  ref?: string;
  old?: string;
  new?: string;
  task_id?: string;
  reason?: string;
}

/** The first line that says something. */
export function firstLine(text: string): string {
  return /\S[^\r\n]*/.exec(text)?.[0].slice(0, 300) ?? "";
}

/** The questions that wait for a person. */
export function asks(t: Task): Inquiry[] {
  return ended(t.status) ? [] : (t.inquiries ?? []).filter((q) => q.answer === undefined);
}

/** Who has the task, or may take it. */
export function holder(t: Task): string {
  switch (t.status) {
    case "Queued":
      if (t.pool === "none") return "waits for its token";
      return `waits in pool ${t.pool}` + (t.lease ? `, leased ${t.lease} × before` : "");
    case "Running":
      return t.lease ? `lease ${t.lease} of ${t.holder ?? "somebody"}` : "the holder of its token";
    default:
      return t.lease ? `was last with ${t.holder ?? "a pool's agent"}` : t.started ? "was with the holder of its token" : "nobody took it";
  }
}

/** What an object of git is called in a line of text. */
export function short(object: string | undefined): string {
  return !object || /^0+$/.test(object) ? "nothing" : object.slice(0, 10);
}
