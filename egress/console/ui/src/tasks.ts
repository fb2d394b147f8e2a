// The documents of tasks, and their labels.
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
  entries?: string[];
  models?: string[];
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

/** A page of tasks. behind counts the log records that the index has not read yet. */
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
  at?: number;
  text?: string;
}

export interface Repo {
  name: string;
  mode: "hosted" | "proxy";
  default_branch: string;
  url?: string;
}

export type RepoPage = Page<Repo>;

/** The result of a push action. */
export interface PushResult {
  ref?: string;
  old?: string;
  new?: string;
  task_id?: string;
  reason?: string;
}

/** The first line with text. */
export function firstLine(text: string): string {
  return /\S[^\r\n]*/.exec(text)?.[0].slice(0, 300) ?? "";
}

/** The open questions of a task. */
export function asks(t: Task): Inquiry[] {
  return ended(t.status) ? [] : (t.inquiries ?? []).filter((q) => q.answer === undefined);
}

/** The agent that works on the task, or the pool that waits for one. */
export function holder(t: Task): string {
  switch (t.status) {
    case "Queued":
      if (t.pool === "none") return "waiting for the holder of its token";
      return `waiting in pool ${t.pool}` + (t.lease ? `, leased ${t.lease} × before` : "");
    case "Running":
      return t.lease ? `lease ${t.lease} of ${t.holder ?? "an agent"}` : "held by its token";
    default:
      return t.lease ? `last held by ${t.holder ?? "an agent"}` : t.started ? "held by its token" : "never started";
  }
}

/** The short name of a git object. */
export function short(object: string | undefined): string {
  return !object || /^0+$/.test(object) ? "nothing" : object.slice(0, 10);
}
