// The form of a rule. Every field reads and writes the rule's document, which the JSON tab shows.
import { useState } from "preact/hooks";
import { type Doc } from "../merge";
import { Field, Select } from "../ui";
import { kinds, methods } from "../vocabulary";

export const templates: Record<string, Doc> = {
  mock: { status: 200, body_mode: "json", body: { ok: true } },
  delay: { delay_ms: 1000 },
  redirect: { to_url: "http://localhost:8080/$1" },
  headers: { request_headers: [{ op: "set", name: "X-Rehearsal", value: "1" }] },
};

/** The first free id of the form mock-1. */
export function freeID(type: string, taken: string[]): string {
  let n = 1;
  while (taken.includes(`${type}-${n}`)) n++;
  return `${type}-${n}`;
}

export function draft(type: string, taken: string[]): Doc {
  return { id: freeID(type, taken), type, enabled: true, priority: 0, match: { url_pattern: "https://api.example.com/*", method: "ANY" }, action: templates[type] };
}

interface Form {
  rule: Doc;
  set: (rule: Doc) => void;
  /** Reports a field that the document cannot hold, or "". */
  wrong: (text: string) => void;
  isNew: boolean;
  taken: string[];
}

const part = (rule: Doc, name: string): Doc => (typeof rule[name] === "object" && rule[name] !== null ? (rule[name] as Doc) : {});
const text = (v: unknown): string => (v === undefined || v === null ? "" : String(v));

/** A document with a member set, or without it if the value is empty. */
function put(of: Doc, name: string, value: unknown): Doc {
  const { [name]: _, ...rest } = of;
  return value === "" || value === undefined ? rest : { ...rest, [name]: value };
}

export function RuleFields({ rule, set, wrong, isNew, taken }: Form) {
  const match = part(rule, "match");
  const action = part(rule, "action");
  const scope = part(rule, "scope");
  const type = text(rule["type"]);
  const top = (name: string, value: unknown) => set(put(rule, name, value));
  const inner = (of: Doc, at: string) => (name: string, value: unknown) => set({ ...rule, [at]: put(of, name, value) });
  const inMatch = inner(match, "match");
  const inAction = inner(action, "action");
  const inScope = (name: string, value: string) => {
    const next = put(scope, name, value);
    set(Object.keys(next).length ? { ...rule, scope: next } : put(rule, "scope", undefined));
  };
  const change = (to: string) => set({ ...rule, type: to, action: templates[to], id: rule["id"] === freeID(type, taken) ? freeID(to, taken) : rule["id"] });
  const line = (label: string, value: unknown, onInput: (v: string) => void, more: { hint?: string; grow?: boolean; off?: boolean; number?: boolean; placeholder?: string } = {}) => (
    <Field label={label} {...(more.hint && { hint: more.hint })}>
      {(id) => (
        <input
          id={id}
          class={more.grow ? "grow" : ""}
          type={(more.number ? "number" : "text") as "text"}
          value={text(value)}
          disabled={more.off}
          placeholder={more.placeholder}
          spellcheck={false}
          autocomplete="off"
          onInput={(e) => onInput(e.currentTarget.value)}
        />
      )}
    </Field>
  );
  const number = (v: string) => (v === "" ? undefined : Number(v));
  const check = (label: string, on: boolean, to: (on: boolean) => void) => (
    <label class="check">
      <input type="checkbox" checked={on} onChange={(e) => to(e.currentTarget.checked)} /> {label}
    </label>
  );
  return (
    <div class="form">
      <div class="filters">
        {isNew && <Select label="Type" value={type} options={Object.keys(templates)} onChange={change} />}
        {line("Id", rule["id"], (v) => top("id", v), { off: !isNew })}
        {line("Name", rule["name"], (v) => top("name", v), { placeholder: "optional" })}
      </div>
      <div class="filters">
        <Select label="Method" value={text(match["method"]) || "ANY"} options={["ANY", ...methods]} onChange={(v) => inMatch("method", v)} />
        {line("URL pattern", match["url_pattern"], (v) => inMatch("url_pattern", v), { grow: true, hint: "scheme://host/path; * matches any characters" })}
      </div>
      {type === "mock" && <Mock action={action} put={inAction} wrong={wrong} />}
      {type === "delay" && line("Delay in ms", action["delay_ms"], (v) => inAction("delay_ms", number(v)), { number: true, hint: "0 to 60,000" })}
      {type === "redirect" && line("Target URL", action["to_url"], (v) => inAction("to_url", v), { grow: true, hint: "$1 inserts the text that the first * matched" })}
      {type === "headers" && (
        <>
          <Changes label="Request headers" of={action["request_headers"]} put={(v) => inAction("request_headers", v)} wrong={wrong} />
          <Changes label="Response headers" of={action["response_headers"]} put={(v) => inAction("response_headers", v)} wrong={wrong} />
        </>
      )}
      <div class="row">
        {check("Enabled", rule["enabled"] !== false, (on) => top("enabled", on))}
        {check("Match the query too", match["include_query"] === true, (on) => inMatch("include_query", on || undefined))}
      </div>
      <details>
        <summary>Priority, group, scope and expiry</summary>
        <div class="filters">
          {line("Priority", rule["priority"], (v) => top("priority", number(v) ?? 0), { number: true, hint: "the highest applies first" })}
          {line("Group", rule["group"], (v) => top("group", v), { placeholder: "default" })}
          {line("Expires at", rule["expires_at"], (v) => top("expires_at", v), { placeholder: "2036-01-02T15:04:05Z" })}
        </div>
        <div class="filters">
          <Select label="Only kind" value={text(scope["action_kind"])} options={kinds} any="any" onChange={(v) => inScope("action_kind", v)} />
          {line("Only agent", scope["agent"], (v) => inScope("agent", v), { placeholder: "task type or token id" })}
          {line("Only task", scope["task_id"], (v) => inScope("task_id", v), { placeholder: "full id" })}
        </div>
      </details>
    </div>
  );
}

type Part = { put: (name: string, value: unknown) => void; wrong: (text: string) => void };

function Mock({ action, put, wrong }: Part & { action: Doc }) {
  const mode = text(action["body_mode"]) || "json";
  const written = (m: string, body: unknown) => (body === undefined ? "" : m === "json" && typeof body !== "string" ? JSON.stringify(body, null, 2) : m === "json" ? JSON.stringify(body) : text(body));
  const [body, set] = useState(() => written(mode, action["body"]));
  const change = (value: string, m = mode) => {
    set(value);
    wrong("");
    if (m !== "json" || value.trim() === "") return put("body", value);
    try {
      put("body", JSON.parse(value));
    } catch {
      wrong("The body is not JSON. Complete it, or choose the body mode text.");
    }
  };
  return (
    <>
      <div class="filters">
        <Field label="Status">{(id) => <input id={id} type="number" min={200} max={599} value={text(action["status"])} placeholder="200" onInput={(e) => put("status", e.currentTarget.value === "" ? undefined : Number(e.currentTarget.value))} />}</Field>
        <Select label="Body mode" value={mode} options={["json", "text", "raw", "base64"]} onChange={(m) => put("body_mode", m)} />
      </div>
      <Field label="Body">{(id) => <textarea id={id} class="mono grow" rows={5} spellcheck={false} value={body} onInput={(e) => change(e.currentTarget.value)} />}</Field>
    </>
  );
}

interface Change {
  op: string;
  name: string;
  value?: string;
}

/** Changes of headers, one per line. */
function Changes({ label, of, put, wrong }: { label: string; of: unknown; put: (v: Change[] | undefined) => void; wrong: (text: string) => void }) {
  const [lines, set] = useState(() => ((of as Change[] | undefined) ?? []).map((c) => (c.op === "remove" ? `remove ${c.name}` : `${c.op} ${c.name}: ${c.value ?? ""}`)).join("\n"));
  const change = (value: string) => {
    set(value);
    const parsed = value.split("\n").filter((l) => l.trim()).map((l) => /^\s*(?:(set|append)\s+([^\s:]+)\s*:\s*(.*)|(remove)\s+(\S+))\s*$/.exec(l));
    if (parsed.some((m) => !m)) return wrong(`${label}: write “set Name: value”, “append Name: value” or “remove Name” on each line.`);
    wrong("");
    const changes = parsed.map((m) => (m![4] ? { op: "remove", name: m![5]! } : { op: m![1]!, name: m![2]!, value: m![3]! }));
    put(changes.length ? changes : undefined);
  };
  return (
    <Field label={label} hint="set Name: value, append Name: value, or remove Name">
      {(id) => <textarea id={id} class="mono grow" rows={2} spellcheck={false} value={lines} onInput={(e) => change(e.currentTarget.value)} />}
    </Field>
  );
}
