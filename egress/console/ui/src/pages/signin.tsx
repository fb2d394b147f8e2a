import { useEffect, useRef, useState } from "preact/hooks";
import { request } from "../api";
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
      // The header is there for the throttle of wrong tokens, which does not read bodies.
      const mine = token.trim();
      await request("POST", "/console/session", { token: mine }, undefined, { Authorization: "Bearer " + mine });
      set("");
      await onDone();
    });
  };
  return (
    <main class="alone">
      <form class="card signin" onSubmit={submit}>
        <h1>Weir</h1>
        <p class="dim">Sign in with a token. This browser keeps a session for twelve hours at most, and never the token itself.</p>
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
          <code>weir token create</code> makes one.
        </p>
      </form>
    </main>
  );
}
