import { useState } from "preact/hooks";
import { post } from "../api";
import { useCall, useLive } from "../live";
import { link } from "../route";
import type { NewTask, Repo, RepoPage } from "../tasks";
import { Dialog, Failure, Field, Secret } from "../ui";

const texts = ["description", "repo", "base_ref", "branch", "deadline", "pool", "model", "requests", "tokens", "usd", "metadata", "request_id"] as const;
type Form = Record<(typeof texts)[number], string> & { force_push: boolean };

const blank = { ...Object.fromEntries(texts.map((n) => [n, ""])), force_push: false } as Form;

/** The body of POST /v1/tasks. Empty fields are left out and get their defaults. */
function body(f: Form): Record<string, unknown> {
  const out: Record<string, unknown> = { description: f.description, repo: f.repo };
  for (const name of ["base_ref", "branch", "deadline", "pool", "model", "request_id"] as const) {
    if (f[name].trim()) out[name] = f[name].trim();
  }
  const budget = Object.fromEntries((["requests", "tokens", "usd"] as const).filter((n) => f[n] !== "").map((n) => [n, Number(f[n])]));
  if (Object.keys(budget).length) out["budget"] = budget;
  if (f.force_push) out["force_push"] = true;
  const metadata = f.metadata.split("\n").map((line) => line.trim()).filter(Boolean);
  if (metadata.length) out["metadata"] = Object.fromEntries(metadata.map((line) => pair(line)));
  return out;
}

function pair(line: string): [string, string] {
  const at = line.indexOf("=");
  return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
}

/** A UUIDv7, as Weir makes them. Pages without TLS have no crypto.randomUUID. */
function newID(): string {
  const b = crypto.getRandomValues(new Uint8Array(16));
  const now = Date.now();
  for (let i = 0; i < 6; i++) b[i] = Math.floor(now / 256 ** (5 - i)) % 256;
  b[6] = (b[6]! & 0x0f) | 0x70;
  b[8] = (b[8]! & 0x3f) | 0x80;
  const hex = [...b].map((x) => x.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

export function FileTask({ onClose }: { onClose: () => void }) {
  const repos = useLive<RepoPage>("/v1/repos?limit=1000", 0);
  const [form, set] = useState(blank);
  const [made, setMade] = useState<NewTask>();
  const [id] = useState(newID); // a repeated request returns the same task
  const { busy, error, call } = useCall();
  const file = () =>
    call(async () => {
      setMade(await post<NewTask>("/v1/tasks", { request_id: id, ...body(form) }));
    });
  if (made) return <Filed made={made} onClose={onClose} />;
  return (
    <Dialog title="New task" onClose={() => busy || onClose()}>
      <form class="filing" onSubmit={(e) => (e.preventDefault(), void file())}>
        <Fields form={form} set={(change) => set((f) => ({ ...f, ...change }))} repos={repos.data?.items} />
        <Failure error={repos.error} again={repos.again} />
        <Failure error={error} />
        <footer>
          <button type="submit" class="primary" disabled={busy || !form.description.trim() || !form.repo}>
            {busy ? "Creating…" : "Create"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

type Setter = (change: Partial<Form>) => void;

function Fields({ form, set, repos }: { form: Form; set: Setter; repos: Repo[] | undefined }) {
  const line = (name: (typeof texts)[number], label: string, placeholder = "", hint?: string) => (
    <Field label={label} {...(hint && { hint })}>
      {(id) => <input id={id} value={form[name]} placeholder={placeholder} spellcheck={false} autocomplete="off" onInput={(e) => set({ [name]: e.currentTarget.value })} />}
    </Field>
  );
  const amount = (name: "requests" | "tokens" | "usd", label: string, step: string) => (
    <Field label={label}>{(id) => <input id={id} type="number" min={0} step={step} value={form[name]} placeholder="no limit" onInput={(e) => set({ [name]: e.currentTarget.value })} />}</Field>
  );
  const repo = repos?.find((r) => r.name === form.repo);
  return (
    <>
      <Field label="Description">{(id) => <textarea id={id} class="grow" rows={5} value={form.description} onInput={(e) => set({ description: e.currentTarget.value })} />}</Field>
      <Field label="Repository" {...(repos?.length === 0 && { hint: "No repository yet. Create one with weir repos create NAME." })}>
        {(id) => (
          <select id={id} value={form.repo} onChange={(e) => set({ repo: e.currentTarget.value })}>
            <option value="">choose one</option>
            {repos?.map((r) => (
              <option key={r.name} value={r.name}>
                {r.name}
              </option>
            ))}
          </select>
        )}
      </Field>
      <div class="filters">
        {line("base_ref", "Base branch", repo?.default_branch ?? "the default branch")}
        {line("branch", "New branch", "the task's id")}
        {line("deadline", "Deadline", "8h", "2h, 90m, or a time such as 2036-01-02T15:04:05Z")}
      </div>
      <details>
        <summary>Pool, models, budget and more</summary>
        <div class="filters">
          {line("pool", "Pool", "default", "none: only the holder of its token can start it")}
          {line("model", "Model", "any model of your token")}
          {line("request_id", "Id", "a new one")}
        </div>
        <div class="filters">
          {amount("requests", "Budget: requests", "1")}
          {amount("tokens", "Budget: tokens", "1")}
          {amount("usd", "Budget: USD", "any")}
        </div>
        <Field label="Metadata" hint="One per line: name = text.">
          {(id) => <textarea id={id} rows={3} value={form.metadata} onInput={(e) => set({ metadata: e.currentTarget.value })} />}
        </Field>
        <label class="check">
          <input type="checkbox" checked={form.force_push} onChange={(e) => set({ force_push: e.currentTarget.checked })} /> Allow force push
        </label>
      </details>
    </>
  );
}

function Filed({ made, onClose }: { made: NewTask; onClose: () => void }) {
  return (
    <Dialog title="Task created" onClose={onClose} stays={!!made.token}>
      <p>
        <a class="mono id" href={link("tasks", made.id)}>
          {made.id}
        </a>
      </p>
      <Token of={made} />
      <footer>
        <button type="button" onClick={onClose}>
          Done
        </button>
      </footer>
    </Dialog>
  );
}

/** A task's token, shown once. */
export function Token({ of }: { of: NewTask }) {
  if (!of.token) return <p>An earlier request created this task and showed its token. The task's page can create another token.</p>;
  return (
    <>
      <p class="notice doubt">Weir shows this token once. Its holder is the task's agent: it reads the task, pushes to its branch and reports the result. Give it to one agent, and do not store it where others can read it.</p>
      <Secret token={of.token} />
      {of.pool !== "none" && <p class="dim">Agents of the pool {of.pool} do not need it: when one leases the task, this token stops working.</p>}
    </>
  );
}
