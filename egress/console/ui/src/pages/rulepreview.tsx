// What the rules and the policy do to one call, with the rule as the editor has it.
import { useEffect, useState } from "preact/hooks";
import { post, Refusal } from "../api";
import type { Doc } from "../merge";
import type { Preview } from "../types";
import { Badge, Code, Failure, Field, Select } from "../ui";
import { methods } from "../vocabulary";

const pause = 400; // ms after the last change

/** A URL that a pattern matches, or "". */
function example(pattern: unknown): string {
  const url = String(pattern ?? "").replace(/^\*:/, "https:").replaceAll("*", "");
  return /^https?:\/\/[^/]+/.test(url) ? url : "";
}

/** Previews a call after each change. Nothing is sent or stored. */
export function LivePreview({ rule }: { rule: Doc | undefined }) {
  const match = (rule?.["match"] ?? {}) as Doc;
  const [own, setOwn] = useState<string>(); // the URL, once the user has edited it
  const [method, setMethod] = useState("");
  const [shown, show] = useState<{ said?: Preview; error?: Refusal }>({});
  const url = own ?? example(match["url_pattern"]);
  const verb = method || (match["method"] && match["method"] !== "ANY" ? String(match["method"]) : "GET");
  const body = JSON.stringify({ method: verb, url, ...(rule && { rule }) });
  useEffect(() => {
    if (!url) return show({});
    let over = false;
    const timer = setTimeout(() => {
      post<Preview>("/v1/rules/preview", JSON.parse(body)).then(
        (said) => over || show({ said }),
        (cause) => over || show({ error: cause instanceof Refusal ? cause : new Refusal(0, "UNKNOWN", String(cause)) }),
      );
    }, pause);
    return () => ((over = true), clearTimeout(timer));
  }, [body, url]);
  const { said, error } = shown;
  return (
    <section class="rehearse" aria-labelledby="h-preview">
      <h3 id="h-preview">Preview</h3>
      <div class="filters">
        <Select label="Call method" value={verb} options={methods} onChange={setMethod} />
        <Field label="Call URL">{(id) => <input id={id} class="grow" value={url} placeholder="https://api.example.com/v1/orders" spellcheck={false} onInput={(e) => setOwn(e.currentTarget.value)} />}</Field>
      </div>
      <Failure error={error} />
      {said && (
        <div role="status" class="verdict">
          <p>
            <Badge word={said.result} as={said.result === "denied" ? "bad" : said.result === "mocked" ? "busy" : "good"} />{" "}
            <span class="mono wrap">
              {said.method} {said.url}
            </span>
            {said.delay_ms ? `, delayed by ${said.delay_ms} ms` : ""}
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
                <Badge word={r.applies ? "applies" : "does not apply"} as={r.applies ? "good" : "plain"} /> <span class="mono">{r.id}</span> {r.reason}
              </li>
            ))}
            {said.rules.length === 0 && <li class="dim">No rule matches this call.</li>}
          </ul>
        </div>
      )}
    </section>
  );
}
