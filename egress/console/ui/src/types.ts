// The documents of Weir's routes, as far as the console shows them; /openapi.json has all.

export interface Page<T> {
  items: T[];
  next?: string;
}

export interface Problem {
  title: string;
  status: number;
  detail?: string;
  code: string;
  request_id?: string;
  earliest_id?: string;
}

export interface Session {
  mode: "open" | "tokens";
  signed_in: boolean;
  tenant?: string;
  name?: string;
  scopes?: string[];
  expires_at?: string;
}

/** The call of an action, or the first call of a plan, and the caller. */
export interface Called {
  method?: string;
  host?: string;
  path?: string;
  calls?: number;
  agent?: string;
  caller?: string;
}

/** The use of a model by a chat. */
export interface ModelUse {
  model?: string;
  tokens_in?: number;
  tokens_out?: number;
  cost_usd?: number;
  ttft_ms?: number;
}

/** What the chats that have ended have used of models. */
export interface UsageSum {
  completions: number;
  tokens_in: number;
  tokens_out: number;
  cost_usd: number;
}

export interface UsageGroup extends UsageSum {
  name: string;
}

export interface Usage {
  by: "day" | "task" | "model";
  total: UsageSum;
  groups: UsageGroup[];
  more?: number;
}

/** The last answer of the target. */
export interface Answered {
  http_status?: number;
}

export interface ActionEntry extends Called, Answered, ModelUse {
  id: string;
  kind: string;
  task_type?: string;
  status: string;
  class?: string;
  created: string;
  deadline?: string;
  code?: string;
  entry?: string;
  task?: string;
  duration_ms?: number;
  resolution?: string;
}

export interface Decision {
  allowed: boolean;
  code?: string;
  reason?: string;
  entry?: string;
  version: string;
  shadow?: { allowed: boolean; code?: string; reason?: string; entry?: string };
  traffic?: Traffic;
}

export interface Traffic {
  rules_etag: string;
  rules?: string[];
  redirected?: string;
  mocked?: string;
  target?: string;
  delay_ms?: number;
}

export interface Attempt {
  step: number;
  number: number;
  hop?: number;
  probe?: number;
  class?: string;
  entry?: string;
  done: boolean;
  code?: string;
  sent?: boolean;
  status?: number;
  duration_ms?: number;
}

export interface Waiting {
  for: string;
  until?: string;
}

export interface Action extends Called {
  id: string;
  kind: string;
  task_type?: string;
  status: string;
  class?: string;
  created: string;
  deadline?: string;
  not_before?: string;
  settled?: string;
  cancel_requested?: boolean;
  waiting?: Waiting;
  supersedes?: string;
  superseded_by?: string;
  attempts: Attempt[];
  decision?: Decision;
  code?: string;
  message?: string;
  result?: unknown;
  resolution?: { effect: string; note?: string; by?: string };
}

export interface ActionEvent {
  seq: number;
  n: number;
  type: string;
  time: string;
  action?: { class?: string; deadline: string; supersedes?: string };
  attempt?: { step: number; number: number; hop?: number; probe?: number; class?: string; decision: Decision };
  attempted?: {
    step: number;
    number: number;
    hop?: number;
    probe?: number;
    effect?: string;
    code?: string;
    sent: boolean;
    status?: number;
    duration_ms: number;
    retry_at?: string;
    traffic?: Traffic;
  };
  waiting?: Waiting;
  task?: { what: string; status: string; inquiry?: { question: string }; report?: { text?: string } };
  data?: unknown;
  settled?: { outcome: string; code?: string; message?: string; attempts: number };
  resolution?: { effect: string; note?: string; by?: string };
  superseded?: { by: string };
}

export interface Evidence {
  id: string;
  time: string;
  tenant: string;
  action_id: string;
  kind: string;
  entry?: string;
  code?: string;
  payload: unknown;
  policy_version?: string;
  traffic?: Traffic;
}

export interface DeadLetter extends Called {
  seq: number;
  time: string;
  kind: string;
  action_id: string;
  code: string;
  reason: string;
}

export interface Rule {
  id: string;
  name?: string;
  group: string;
  type: string;
  enabled: boolean;
  priority: number;
  match: { url_pattern: string; method: string; include_query: boolean };
  action: Record<string, unknown>;
  scope?: Record<string, string>;
  expires_at?: string;
}

export interface RulePage extends Page<Rule> {
  global_active: boolean;
  rules_etag: string;
}

export interface Preview {
  result: string;
  method: string;
  url: string;
  delay_ms?: number;
  mock?: { status: number; body?: unknown };
  decision: Decision;
  rules: { id: string; type: string; applies: boolean; reason?: string }[];
}

export interface NeverRetry {
  status?: number[];
  header?: Record<string, string>;
}

/** What happens to one call after a failure or a lost answer. */
export interface Contract {
  attempts: number;
  base: string;
  cap: string;
  retry_on: string[];
  never_retry?: NeverRetry;
  key: string;
  key_header?: string;
  key_ttl?: string;
  requires_key?: boolean;
  probe?: boolean;
  response_schema?: string;
}

export interface PolicyEntry {
  name: string;
  url_prefix?: string; // absent, like network: only operators see that of agents and models
  methods: string[];
  network?: string;
  headers?: string[];
  query?: string[];
  body?: string[];
  caller_headers?: string[];
  caller_params?: string[];
  pass?: string[];
  upstream_idempotency_ttl?: string;
  idempotency_header?: string;
  derives_key?: boolean;
  requires_key?: boolean;
  retry?: { attempts: number; base: string; cap: string; on?: number[] };
  never_retry?: NeverRetry;
  reconcile?: { method: string; url: string; applied: string; not_applied?: string; within: string };
  response_schema?: { mode: string };
  limits?: { rate?: string; concurrency?: number };
  mode: string;
  agent?: boolean;
}

export interface Policy {
  version: string;
  since: string;
  entries: PolicyEntry[];
  allowed_hosts: string[];
}

export interface Explanation extends Decision {
  check?: string;
  remedy?: string;
  class?: string;
  contract?: Contract;
  entries: { entry: string; mode: string; fits: boolean; check?: string; reason?: string }[];
}

export interface StatsSum {
  accepted: number;
  settled: number;
  rate: number;
  p50_ms?: number;
  p99_ms?: number;
  outcomes: Record<string, number>;
}

export interface StatsGroup extends StatsSum {
  name: string;
}

export interface Stats {
  since: string;
  until: string;
  step_s: number;
  as_of?: string;
  behind?: number;
  total: StatsSum;
  open: { count: number; oldest?: string };
  groups?: StatsGroup[];
  points: {
    time: string[];
    accepted: number[];
    settled: number[];
    p50_ms: (number | null)[];
    p99_ms: (number | null)[];
    outcomes: Record<string, number[]>;
  };
}

export interface ActionPage extends Page<ActionEntry> {
  behind?: number;
  count?: { total: number; by: Record<string, number> };
}

export interface Target {
  entry?: string;
  destination?: string;
  tenant?: string;
  kind?: string;
}

export interface Operation extends Target {
  do: "pause" | "pin";
  state?: string;
  reason?: string;
  by?: string;
  at: string;
}

export interface DestinationView {
  entry: string;
  destination: string;
  state: string; // asked, open or trying
  until?: string;
  failures?: number;
  tenants?: string[];
}

export interface OperationsView {
  items: Operation[];
  destinations: DestinationView[];
}

export interface BudgetCount {
  limit: number;
  used: number;
  held: number;
}

export interface BudgetView {
  budget: string;
  token?: string;
  task?: string;
  model?: string;
  requests?: BudgetCount;
  tokens?: BudgetCount;
  usd?: BudgetCount;
  open: number;
  resets?: string;
}

export interface Token {
  id: string;
  name: string;
  tenant: string;
  scopes: string[];
  entries?: string[];
  pools?: string[];
  models?: string[];
  rate?: string;
  created_at: string;
  expires_at?: string;
  status: string; // active, expired or revoked
}

export interface NewToken extends Token {
  secret: string;
}

export interface Readiness {
  ready: boolean;
  role?: string;
  durability: string;
  replicas?: number;
  partitions: number;
  policy_version: string;
  checks: Record<string, string>;
  reasons?: string[];
}

export interface NodeReport {
  node: string;
  role: string;
  build?: string;
  started?: string;
  version?: string;
  previous?: string;
  changed?: boolean;
  error?: string;
}

export interface Reload {
  version: string;
  previous: string;
  changed: boolean;
  node?: string;
  nodes?: NodeReport[];
}
