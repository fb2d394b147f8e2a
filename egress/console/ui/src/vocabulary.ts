export const kinds = ["http", "plan", "run", "rule", "task", "push", "repo", "chat", "passthrough"] as const;
export const statuses = ["accepted", "started", "waiting", "succeeded", "failed", "denied", "canceled", "expired", "outcome_unknown"] as const;
export const methods = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"] as const;
export const evidenceKinds = [
  "http.attempt",
  "builtin.http_connector",
  "policy.decision",
  "rule.write",
  "task.status",
  "git.push",
  "proxy.tunnel",
  "repo.create",
  "chat.completion",
] as const;

/** How a page shows a word of the API. Other words are shown with spaces for underscores. */
const labels: Record<string, string> = {
  accepted: "queued",
  started: "running",
  "15m": "last 15 min",
  "1h": "last hour",
  "24h": "last 24 h",
  "7d": "last 7 d",
  "30d": "last 30 d",
  "90d": "last 90 d",
};
export const label = (word: string): string => labels[word] ?? word.replaceAll("_", " ");

export const settled = (status: string): boolean => !["accepted", "started", "waiting"].includes(status);
