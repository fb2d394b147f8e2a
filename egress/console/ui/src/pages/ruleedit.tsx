import { useMemo, useState } from "preact/hooks";
import { Refusal, rules } from "../api";
import { useCall } from "../live";
import { diff, type Doc } from "../merge";
import type { Rule } from "../types";
import { Badge, Code, Dialog, Failure, Field } from "../ui";
import { draft, RuleFields } from "./rulefields";
import { LivePreview } from "./rulepreview";

interface Conflict {
  theirs: Rule | undefined;
  etag: string;
}

const tabs = ["Form", "JSON"] as const;

/** Edits one rule, against its version when the dialog opened. After a concurrent change it shows both
 * versions. */
export function Editor(p: { rule: Rule | undefined; taken: string[]; etag: string; mayWrite: boolean; onClose: (changed: boolean) => void }) {
  const [base, setBase] = useState(p.rule);
  const [etag, setEtag] = useState(p.etag);
  const [text, setText] = useState(() => JSON.stringify(p.rule ?? draft("mock", p.taken), null, 2));
  const [tab, setTab] = useState<(typeof tabs)[number]>("Form");
  const [field, setField] = useState(""); // an error of the form that the document cannot hold
  const [conflict, setConflict] = useState<Conflict>();
  const { busy, error, call, clear } = useCall();
  const parsed = useMemo(() => parse(text), [text]);
  const wrong = field || parsed.wrong;

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
      <Dialog title="The rules have changed" onClose={() => p.onClose(true)}>
        <p>
          <Badge word="ETAG_MISMATCH" as="doubt" />{" "}
          {same ? "Another rule has changed since you opened this one; this rule is unchanged." : "This rule has changed since you opened it. Compare both versions."}
        </p>
        <div class="versions">
          <section aria-label="Theirs">
            <h3>In force</h3>
            {conflict.theirs ? <Code value={conflict.theirs} /> : <p class="dim">The rule no longer exists.</p>}
          </section>
          <section aria-label="Yours">
            <h3>Mine</h3>
            <Code value={text} />
          </section>
        </div>
        <Failure error={error} />
        <footer>
          <button type="button" onClick={() => p.onClose(true)}>
            Discard mine
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
            Keep editing mine
          </button>
          <button type="button" class="danger" disabled={busy} onClick={() => void write(conflict.theirs, conflict.etag)}>
            Overwrite with mine
          </button>
        </footer>
      </Dialog>
    );
  }
  return (
    <Dialog title={p.rule ? `Rule ${p.rule.id}` : "New rule"} onClose={() => p.onClose(false)}>
      <div class="segments tabs" role="group" aria-label="Editor">
        {tabs.map((name) => (
          <button key={name} type="button" aria-pressed={tab === name} disabled={name === "Form" && !parsed.rule} onClick={() => (setTab(name), setField(""))}>
            {name}
          </button>
        ))}
      </div>
      {tab === "Form" && parsed.rule ? (
        <fieldset disabled={!p.mayWrite}>
          <RuleFields rule={parsed.rule} set={(rule) => setText(JSON.stringify(rule, null, 2))} wrong={setField} isNew={!p.rule} taken={p.taken} />
        </fieldset>
      ) : (
        <Field label="Rule, as JSON">
          {(id) => (
            <textarea id={id} class="mono" rows={16} spellcheck={false} readOnly={!p.mayWrite} value={text} aria-invalid={!!parsed.wrong} onInput={(e) => setText(e.currentTarget.value)} />
          )}
        </Field>
      )}
      <p role="status" class={wrong ? "bad-text" : "dim"}>
        {wrong || (p.rule ? "Saving removes members that are left out." : "Weir applies the rule from its creation, if it is enabled.")}
      </p>
      <Failure error={error} />
      <LivePreview rule={field ? undefined : parsed.rule} />
      <footer>
        <button type="button" class="primary" disabled={!p.mayWrite || busy || !!wrong} onClick={() => void write(base, etag)}>
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
    return { wrong: "This is not JSON: " + (cause as Error).message };
  }
  if (typeof doc !== "object" || doc === null || Array.isArray(doc)) return { wrong: "A rule must be a JSON object." };
  const rule = doc as Doc;
  if (!/^[A-Za-z0-9._:-]{1,128}$/.test(String(rule["id"] ?? ""))) return { rule, wrong: "The id must have 1 to 128 of the characters A-Z a-z 0-9 . _ : -" };
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
