import { useEffect, useRef, useState } from "preact/hooks";
import { Refusal, request } from "../api";
import { useCall } from "../live";
import { Failure } from "../ui";

export function SignIn({ onDone }: { onDone: () => Promise<void> }) {
  const [token, set] = useState("");
  const { busy, error, call } = useCall();
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const submit = (e: Event) => {
    e.preventDefault();
    void call(async () => {
      // The throttle of wrong tokens reads the header, not the body.
      const mine = token.trim();
      await request("POST", "/console/session", { token: mine }, undefined, { Authorization: "Bearer " + mine }).catch((e: unknown) => {
        if (e instanceof Refusal && e.status === 401) throw new Refusal(401, e.code, "Token unknown, expired or revoked. An admin creates another with `weir tokens create`.");
        throw e;
      });
      set("");
      await onDone();
    });
  };
  return (
    <main class="alone">
      <form class="card signin" onSubmit={submit}>
        <h1>Weir</h1>
        <p class="dim">Sign in with a token. The browser stores a session for up to twelve hours, and never the token.</p>
        <label for="token">Token</label>
        <input
          id="token"
          ref={input}
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={token}
          onInput={(e) => set(e.currentTarget.value)}
          placeholder="weir1_…"
        />
        <Failure error={error} />
        <button type="submit" class="primary" disabled={busy || !token.trim()}>
          {busy ? "Signing in…" : "Sign in"}
        </button>
        <p class="dim">
          The first start of Weir writes one to <code>admin.token</code> in its data directory; <code>weir tokens create</code> creates others.
        </p>
      </form>
    </main>
  );
}
