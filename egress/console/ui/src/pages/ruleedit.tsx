import { useMemo, useState } from "preact/hooks";
import { post, Refusal, rules } from "../api";
import { useCall } from "../live";
import { diff, type Doc } from "../merge";
import type { Preview, Rule } from "../types";
import { Badge, Code, Dialog, Failure, Field, Select } from "../ui";

const templates: Record<string, Doc> = {
  mock: { status: 200, body_mode: "json", body: { ok: true } },
  delay: { delay_ms: 1000 },
  redirect: { to_url: "http://localhost:8080/$1" },
  headers: { request_headers: [{ op: "set", name: "X-Rehearsal", value: "1" }] },
};

function draft(type: string): Doc {
  return { id: "", type, enabled: true, priority: 0, match: { url_pattern: "https://api.example.com/*", method: "ANY" }, action: templates[type] };
}

interface Conflict {
  theirs: Rule | undefined;
  etag: string;
}

/** Edits one rule. What it was when the dialog opened is what a change is made against; where
 * somebody else was faster, both versions are shown. */
export function Editor(p: { rule: Rule | undefined; etag: string; mayWrite: boolean; onClose: (changed: boolean) => void }) {
  const [base, setBase] = useState(p.rule);
  const [etag, setEtag] = useState(p.etag);
  const [text, setText] = useState(() => JSON.stringify(p.rule ?? draft("mock"), null, 2));
  const [conflict, setConflict] = useState<Conflict>();
  const { busy, error, call, clear } = useCall();
  const parsed = useMemo(() => parse(text), [text]);

  const write = (against: Rule | undefined, match: string) =>
    call(async () => {
      const rule = parsed.rule!;
      try {
        if (against) await rules("rules.patch", { id: against.id, patch: diff(against as unknown as Doc, rule), if_match: match });
        else await rules("rules.create", { rule, ...("group" in rule && { group: rule["group"], create_group_if_missing: true }), if_match: match });
      } catch (cause) {
        if (!(cause instanceof Refusal) || cause.code !== "ETAG_MISMATCH") throw cause;
        setConflict(await newest(String(rule["id"])));
        return;
      }
      p.onClose(true);
    });

  if (conflict) {
    const same = !!conflict.theirs && !!base && JSON.stringify(conflict.theirs) === JSON.stringify(base);
    return (
      <Dialog title="Somebody else has changed the rules" onClose={() => p.onClose(true)}>
        <p>
          <Badge word="ETAG_MISMATCH" as="doubt" />{" "}
          {same ? "This rule is as you had read it; another one was changed." : "This rule is another one by now. Here are both."}
        </p>
        <div class="versions">
          <section aria-label="Theirs">
            <h3>In force</h3>
            {conflict.theirs ? <Code value={conflict.theirs} /> : <p class="dim">There is no such rule.</p>}
          </section>
          <section aria-label="Yours">
            <h3>Yours</h3>
            <Code value={text} />
          </section>
        </div>
        <Failure error={error} />
        <footer>
          <button type="button" onClick={() => p.onClose(true)}>
            Keep theirs
          </button>
          <button
            type="button"
            onClick={() => {
              setBase(conflict.theirs);
              setEtag(conflict.etag);
              setConflict(undefined);
              clear();
            }}
          >
            Go on editing yours
          </button>
          <button type="button" class="danger" disabled={busy} onClick={() => void write(conflict.theirs, conflict.etag)}>
            Save yours over it
          </button>
        </footer>
      </Dialog>
    );
  }
  return (
    <Dialog title={p.rule ? `Rule ${p.rule.id}` : "A new rule"} onClose={() => p.onClose(false)}>
      {!p.rule && (
        <Select
          label="Type"
          value={typeof parsed.rule?.["type"] === "string" ? parsed.rule["type"] : "mock"}
          options={Object.keys(templates)}
          onChange={(type) => setText(JSON.stringify({ ...(parsed.rule ?? draft(type)), type, action: templates[type] }, null, 2))}
        />
      )}
      <Field label="Rule, as JSON">
        {(id) => (
          <textarea id={id} class="mono" rows={16} spellcheck={false} readOnly={!p.mayWrite} value={text} aria-invalid={!!parsed.wrong} onInput={(e) => setText(e.currentTarget.value)} />
        )}
      </Field>
      <p role="status" class={parsed.wrong ? "bad-text" : "dim"}>
        {parsed.wrong || (p.rule ? "Members that are left out are taken away." : "It is on as soon as it is made, unless enabled is false.")}
      </p>
      <Failure error={error} />
      <Rehearse rule={parsed.rule} />
      <footer>
        <button type="button" class="primary" disabled={!p.mayWrite || busy || !!parsed.wrong} onClick={() => void write(base, etag)}>
          {busy ? "Saving…" : base ? "Save" : "Create"}
        </button>
      </footer>
    </Dialog>
  );
}

function parse(text: string): { rule?: Doc; wrong: string } {
  let doc: unknown;
  try {
    doc = JSON.parse(text);
  } catch (cause) {
    return { wrong: "This is no JSON: " + (cause as Error).message };
  }
  if (typeof doc !== "object" || doc === null || Array.isArray(doc)) return { wrong: "A rule is an object." };
  const rule = doc as Doc;
  if (!/^[A-Za-z0-9._:-]{1,128}$/.test(String(rule["id"] ?? ""))) return { rule, wrong: "id must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -" };
  return { rule, wrong: "" };
}

async function newest(id: string): Promise<Conflict> {
  try {
    const got = await rules<{ rule: Rule; rules_etag: string }>("rules.get", { id });
    return { theirs: got.rule, etag: got.rules_etag };
  } catch (cause) {
    if (!(cause instanceof Refusal) || cause.status !== 404) throw cause;
    const got = await rules<{ rules_etag: string }>("status", {});
    return { theirs: undefined, etag: got.rules_etag };
  }
}

/** What would become of a call with the rule as it is written here. Nothing is sent or stored. */
function Rehearse({ rule }: { rule: Doc | undefined }) {
  const [method, setMethod] = useState("GET");
  const [url, setURL] = useState("");
  const [said, setSaid] = useState<Preview>();
  const { busy, error, call } = useCall();
  const ask = () => call(async () => setSaid(await post<Preview>("/v1/rules/preview", { method, url, ...(rule && { rule }) })));
  return (
    <details class="rehearse">
      <summary>Preview against a call</summary>
      <div class="filters">
        <Select label="Method" value={method} options={["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]} onChange={setMethod} />
        <Field label="URL">{(id) => <input id={id} class="grow" value={url} placeholder="https://api.example.com/v1/orders" onInput={(e) => setURL(e.currentTarget.value)} />}</Field>
        <button type="button" disabled={busy || !url} onClick={() => void ask()}>
          Preview
        </button>
      </div>
      <Failure error={error} />
      {said && (
        <div role="status" class="verdict">
          <p>
            <Badge word={said.result} as={said.result === "denied" ? "bad" : said.result === "mocked" ? "busy" : "good"} />{" "}
            <span class="mono">
              {said.method} {said.url}
            </span>
            {said.delay_ms ? `, ${said.delay_ms} ms late` : ""}
          </p>
          {said.mock && <Code value={said.mock} />}
          {!said.decision.allowed && (
            <p>
              <code>{said.decision.code}</code> {said.decision.reason}
            </p>
          )}
          <ul class="plain">
            {said.rules.map((r) => (
              <li key={r.id}>
                <Badge word={r.applies ? "applies" : "does not"} as={r.applies ? "good" : "plain"} /> <span class="mono">{r.id}</span> {r.reason}
              </li>
            ))}
          </ul>
        </div>
      )}
    </details>
  );
}
