// Parts that every page uses.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Refusal, unreachable } from "./api";
import { useNow } from "./live";
import { label } from "./vocabulary";

const good = new Set(["succeeded", "sent", "live", "active", "completed"]);
const bad = new Set(["failed", "denied", "expired", "outcome_unknown", "lost"]);
const busy = new Set(["started", "waiting", "running", "leased"]);

export function tone(word: string): string {
  if (good.has(word)) return "good";
  if (word === "outcome_unknown") return "doubt";
  if (bad.has(word) || word.startsWith("DENY_")) return "bad";
  if (busy.has(word)) return "busy";
  return "plain";
}

export function Badge({ word, as }: { word: string; as?: string }) {
  return <span class={`badge ${as ?? tone(word)}`}>{label(word)}</span>;
}

export function ago(from: number, now: number): string {
  const s = Math.round((now - from) / 1000);
  const n = Math.abs(s);
  const text =
    n < 1 ? "" : n < 60 ? `${n} s` : n < 3600 ? `${Math.floor(n / 60)} min` : n < 86400 ? `${Math.floor(n / 3600)} h` : `${Math.floor(n / 86400)} d`;
  return !text ? "now" : s < 0 ? `in ${text}` : `${text} ago`;
}

/** The age of a time, with the exact time on hover. */
export function Time({ at }: { at: string | undefined }) {
  const now = useNow();
  if (!at) return <span class="dim">–</span>;
  const t = Date.parse(at);
  return (
    <time dateTime={at} title={new Date(t).toLocaleString() + "\n" + at}>
      {ago(t, now)}
    </time>
  );
}

export function millis(ms: number | undefined): string {
  if (ms === undefined) return "–";
  if (ms < 1) return ms.toFixed(2) + " ms";
  if (ms < 10) return ms.toFixed(1) + " ms";
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < 10_000) return (ms / 1000).toFixed(2) + " s";
  return (ms / 1000).toFixed(1) + " s";
}

export function Loading({ what }: { what: string }) {
  return (
    <div class="state" role="status">
      <span class="spin" aria-hidden="true" />
      <p>Loading {what}…</p>
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state">
      <p class="strong">{title}</p>
      {children && <div class="dim">{children}</div>}
    </div>
  );
}

export function Failure({ error, again }: { error: Refusal | undefined; again?: () => void }) {
  if (!error) return null;
  const away = error.code === unreachable;
  return (
    <div class={`notice ${away ? "doubt" : "bad"}`} role="alert">
      <div>
        <strong>{away ? "Disconnected" : error.code}</strong> <span>{error.message}</span>
      </div>
      {again && (
        <button type="button" class="small" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Copy({ text, label }: { text: () => string | Promise<string>; label: string }) {
  const [said, say] = useState("");
  const put = async () => {
    try {
      await navigator.clipboard.writeText(await text());
      say("Copied");
    } catch {
      say("Not copied");
    }
    setTimeout(() => say(""), 2000);
  };
  return (
    <button type="button" class="small" onClick={() => void put()} aria-live="polite">
      {said || label}
    </button>
  );
}

/** A token that is shown once, with a button that copies it. */
export function Secret({ token }: { token: string }) {
  return (
    <div class="token">
      <code>{token}</code>
      <Copy label="Copy the token" text={() => token} />
    </div>
  );
}

export function Code({ value }: { value: unknown }) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return (
    <pre class="code" tabIndex={0}>
      {text}
    </pre>
  );
}

export function Field({ label, children, hint }: { label: string; hint?: string; children: (id: string) => ComponentChildren }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(id)}
      {hint && <span class="dim">{hint}</span>}
    </div>
  );
}

export function Select(p: { label: string; value: string; options: readonly string[]; any?: string; onChange: (v: string) => void }) {
  return (
    <Field label={p.label}>
      {(id) => (
        <select id={id} value={p.value} onChange={(e) => p.onChange(e.currentTarget.value)}>
          {p.any !== undefined && <option value="">{p.any}</option>}
          {p.options.map((o) => (
            <option key={o} value={o}>
              {label(o)}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** A text field that reports its value after a pause in typing. */
export function Text(p: { label: string; value: string; placeholder?: string; onChange: (v: string) => void; type?: "text" | "search" }) {
  const [text, set] = useState(p.value);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => set((t) => (t.trim() === p.value ? t : p.value)), [p.value]); // keeps a trailing space while the user types
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <Field label={p.label}>
      {(id) => (
        <input
          id={id}
          type={(p.type ?? "text") as "text"}
          value={text}
          placeholder={p.placeholder}
          spellcheck={false}
          autocomplete="off"
          onInput={(e) => {
            const v = e.currentTarget.value;
            set(v);
            clearTimeout(timer.current);
            timer.current = setTimeout(() => p.onChange(v.trim()), 300);
          }}
        />
      )}
    </Field>
  );
}

/** A dialog. With stays, only its buttons close it, not the Escape key: it shows a secret once. */
export function Dialog({ title, onClose, stays, children }: { title: string; onClose: () => void; stays?: boolean; children: ComponentChildren }) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    box.current?.showModal();
    return () => box.current?.close();
  }, []);
  return (
    <dialog
      ref={box}
      aria-labelledby={id}
      {...(stays && { closedby: "none" })}
      onKeyDown={(e) => stays && e.key === "Escape" && e.preventDefault()}
      onCancel={(e) => {
        e.preventDefault();
        if (!stays) onClose();
      }}
    >
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" class="ghost" onClick={onClose} aria-label="Close">
          ✕
        </button>
      </header>
      {children}
    </dialog>
  );
}

export function Switch({ on, label, disabled, onChange }: { on: boolean; label: string; disabled?: boolean; onChange: () => void }) {
  return (
    <button type="button" role="switch" aria-checked={on} aria-label={label} class="switch" disabled={disabled} onClick={onChange}>
      <span />
    </button>
  );
}

/** A column of a table: its name, and whether it holds numbers, or its name is for screen readers alone. */
export type Column = string | [name: string, as: "num" | "hidden"];

/** The head of a table. */
export function Head({ of }: { of: (Column | false | undefined)[] }) {
  return (
    <thead>
      <tr>
        {of.map((column) => {
          if (!column) return null;
          const [name, as] = typeof column === "string" ? [column] : column;
          return (
            <th scope="col" key={name} class={as === "num" ? as : ""}>
              {as === "hidden" ? <span class={as}>{name}</span> : name}
            </th>
          );
        })}
      </tr>
    </thead>
  );
}

export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of
        .filter(([, v]) => v !== undefined && v !== null && v !== false && v !== "")
        .map(([k, v]) => (
          <div key={k}>
            <dt>{k}</dt>
            <dd>{v}</dd>
          </div>
        ))}
    </dl>
  );
}

/** Says whether the page is up to date. */
export function LiveMark({ error, word = "live" }: { error: Refusal | undefined; word?: string }) {
  return (
    <span class={`mark ${error ? "off" : "on"}`} role="status">
      {error ? "not connected" : word}
    </span>
  );
}
