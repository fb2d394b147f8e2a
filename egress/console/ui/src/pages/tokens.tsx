import { useState } from "preact/hooks";
import { all, post } from "../api";
import { useCall, useReading } from "../live";
import { link } from "../route";
import type { NewToken, Token } from "../types";
import { Badge, Dialog, Empty, Failure, Field, Head, Loading, Secret, Time } from "../ui";
import { useMay, useOperator } from "../who";

const most = 1000; // tokens on the page
const scopes = ["actions:write", "actions:read", "evidence:read", "rules:write", "tasks:write", "tasks:work", "metrics:read", "admin"] as const;
const tones: Record<string, string> = { active: "good", expired: "plain", revoked: "bad" };

/** The tokens of the tenant. */
export function Tokens() {
  const may = useMay("admin");
  const list = useReading<Token[]>(may ? "tokens" : undefined, () => all<Token>("/v1/tokens", { limit: 500 }, most), 5000);
  const [making, make] = useState(false);
  const [revoked, revoke] = useState<Token>();
  const { busy, error, call, clear } = useCall();
  if (!may) return <Empty title="This token may not read tokens.">It needs the scope admin.</Empty>;
  const end = (t: Token) => call(async () => (await post(`/v1/tokens/${encodeURIComponent(t.id)}/revoke`), revoke(undefined))).then(list.again);
  const items = list.data;
  return (
    <>
      <div class="head">
        <h1>Tokens</h1>
        <button type="button" class="primary" onClick={() => make(true)}>
          New token
        </button>
      </div>
      <Failure error={list.error} again={list.again} />
      {!items ? (
        !list.error && <Loading what="tokens" />
      ) : items.length === 0 ? (
        <Empty title="No tokens.">Programs need one as soon as the configuration has auth.mode tokens.</Empty>
      ) : (
        <table class="rows">
          <Head of={["Status", "Name", "Scopes", "Limited to", ["Created", "num"], ["Expires", "num"], ["Revoke", "hidden"]]} />
          <tbody>
            {items.map((t) => (
              <tr key={t.id}>
                <td>
                  <Badge word={t.status} as={tones[t.status] ?? "plain"} />
                </td>
                <td class="wide">
                  <strong>{t.name}</strong> <span class="code-word">{t.id}</span>{" "}
                  <a class="small" href={link("actions", "", { caller: t.name })}>
                    actions
                  </a>
                </td>
                <td class="wide">{t.scopes.join(", ")}</td>
                <td class={"wide" + (limits(t) ? "" : " none")}>{limits(t) || <span class="dim">–</span>}</td>
                <td class="num" data-name="created">
                  <Time at={t.created_at} />
                </td>
                <td class={"num" + (t.expires_at ? "" : " none")} data-name="expires">
                  <Time at={t.expires_at} />
                </td>
                <td class="num">
                  {t.status === "active" && (
                    <button type="button" class="small" aria-label={`Revoke ${t.name}`} onClick={() => (clear(), revoke(t))}>
                      Revoke
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {items && items.length >= most && <p class="dim more">The list shows {most} tokens.</p>}
      {making && <Make onClose={() => (make(false), list.again())} />}
      {revoked && (
        <Dialog title={`Revoke ${revoked.name}?`} onClose={() => revoke(undefined)}>
          <p>Requests with this token are refused from now on. A revoked token cannot be restored.</p>
          <Failure error={error} />
          <footer>
            <button type="button" class="danger" disabled={busy} onClick={() => void end(revoked)}>
              Revoke the token
            </button>
          </footer>
        </Dialog>
      )}
    </>
  );
}

function limits(t: Token): string {
  const named = (what: string, of: string[] | undefined) => of?.length && `${what} ${of.join(", ")}`;
  return [named("entries", t.entries), named("pools", t.pools), named("models", t.models), t.rate].filter(Boolean).join(" · ");
}

const texts = { name: "", tenant: "", expires_in: "", entries: "", pools: "", models: "", rate: "" };

function Make({ onClose }: { onClose: () => void }) {
  const operator = useOperator();
  const [form, set] = useState(texts);
  const [chosen, choose] = useState<readonly string[]>([]);
  const [made, setMade] = useState<NewToken>();
  const { busy, error, call } = useCall();
  const send = () => {
    const words = (text: string) => text.split(/[\s,]+/).filter(Boolean);
    const lists = Object.fromEntries((["entries", "pools", "models"] as const).filter((n) => form[n].trim()).map((n) => [n, words(form[n])]));
    const lines = Object.fromEntries((["tenant", "expires_in", "rate"] as const).filter((n) => form[n].trim()).map((n) => [n, form[n].trim()]));
    void call(async () => setMade(await post<NewToken>("/v1/tokens", { name: form.name.trim(), scopes: chosen, ...lines, ...lists })));
  };
  const line = (name: keyof typeof texts, label: string, placeholder: string) => (
    <Field label={label}>{(id) => <input id={id} value={form[name]} placeholder={placeholder} spellcheck={false} autocomplete="off" onInput={(e) => set({ ...form, [name]: e.currentTarget.value })} />}</Field>
  );
  if (made)
    return (
      <Dialog title={`Token ${made.name}`} onClose={onClose} stays>
        <p class="notice doubt">Weir shows this token once and stores only its hash.</p>
        <Secret token={made.secret} />
        <footer>
          <button type="button" onClick={onClose}>
            Done
          </button>
        </footer>
      </Dialog>
    );
  return (
    <Dialog title="New token" onClose={() => busy || onClose()}>
      <form class="filing" onSubmit={(e) => (e.preventDefault(), send())}>
        <div class="filters">
          {line("name", "Name", "ci-agent")}
          {line("expires_in", "Expires in", "never, or 24h")}
          {operator && line("tenant", "Tenant", "your own")}
        </div>
        <fieldset>
          <legend class="dim">Scopes</legend>
          <div class="row">
            {scopes.map((s) => (
              <label class="check" key={s}>
                <input type="checkbox" checked={chosen.includes(s)} onChange={(e) => choose(e.currentTarget.checked ? [...chosen, s] : chosen.filter((c) => c !== s))} /> {s}
              </label>
            ))}
          </div>
        </fieldset>
        <details>
          <summary>Limits</summary>
          <div class="filters">
            {line("entries", "Policy entries", "all")}
            {line("pools", "Pools", "all")}
            {line("models", "Models", "all, or openai/*")}
            {line("rate", "Rate", "10/s")}
          </div>
        </details>
        <Failure error={error} />
        <footer>
          <button type="submit" class="primary" disabled={busy || !form.name.trim() || chosen.length === 0}>
            {busy ? "Creating…" : "Create"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
