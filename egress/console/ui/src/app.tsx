import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, onSignedOut, Refusal, request, unreachable } from "./api";
import { Keys, type PageName } from "./keys";
import { Who } from "./who";
import { Action } from "./pages/action";
import { Actions } from "./pages/actions";
import { Budgets } from "./pages/budgets";
import { Dead } from "./pages/dead";
import { EvidencePage } from "./pages/evidence";
import { Flow } from "./pages/flow";
import { Nodes } from "./pages/nodes";
import { Operations } from "./pages/operations";
import { PolicyPage } from "./pages/policy";
import { Rules } from "./pages/rules";
import { Run } from "./pages/run";
import { Runs } from "./pages/runs";
import { SignIn } from "./pages/signin";
import { TaskPage } from "./pages/task";
import { Tasks } from "./pages/tasks";
import { Tokens } from "./pages/tokens";
import { link, type Route, useRoute } from "./route";
import type { Session } from "./types";
import { Empty, Failure, Loading } from "./ui";

interface NavPage extends PageName {
  /** The page needs this scope; operator: an admin of the operator's tenant. */
  needs?: string;
}

const pages: NavPage[] = [
  { page: "flow", name: "Flow", key: "f" },
  { page: "actions", name: "Actions", key: "a" },
  { page: "tasks", name: "Tasks", key: "t" },
  { page: "runs", name: "Runs and chats", key: "c" },
  { page: "dead", name: "Dead letters", key: "d" },
  { page: "rules", name: "Rules", key: "r" },
  { page: "policy", name: "Policy", key: "p" },
  { page: "evidence", name: "Evidence", key: "e" },
  { page: "operations", name: "Operations", key: "o", needs: "operator" },
  { page: "budgets", name: "Budgets", key: "b" },
  { page: "tokens", name: "Tokens", key: "k", needs: "admin" },
  { page: "nodes", name: "Nodes", key: "n" },
];

/** The pages that a session can use. */
function allowed(s: Session): NavPage[] {
  const admin = s.scopes?.includes("admin");
  return pages.filter((p) => !p.needs || (admin && (p.needs === "admin" || s.tenant === "default")));
}

export function App() {
  const route = useRoute();
  const [session, setSession] = useState<Session>();
  const [error, setError] = useState<Refusal>();
  const asked = useRef(0);
  const look = useCallback(async () => {
    // A late response to an earlier request must not overwrite a newer session.
    const n = ++asked.current;
    try {
      const now = await get<Session>("/console/session");
      if (n !== asked.current) return;
      setSession(now);
      setError(undefined);
    } catch (cause) {
      if (n !== asked.current) return;
      setError(cause instanceof Refusal ? cause : new Refusal(0, "UNKNOWN", String(cause)));
    }
  }, []);
  useEffect(() => {
    void look();
    // Another tab may have changed the session.
    const shown = () => !document.hidden && void look();
    document.addEventListener("visibilitychange", shown);
    const out = onSignedOut(() => void look());
    return () => (out(), document.removeEventListener("visibilitychange", shown));
  }, [look]);
  useEffect(() => {
    if (error?.code !== unreachable || session) return;
    const timer = setInterval(() => void look(), 2000);
    return () => clearInterval(timer);
  }, [error, session, look]);
  const shown = useMemo(() => (session ? allowed(session) : []), [session]);
  useEffect(() => document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [route.page, session]);
  useEffect(() => {
    const name = pages.find((p) => p.page === route.page)?.name ?? "Weir";
    document.title = (route.id ? route.id + " · " : "") + name + " · Weir";
  }, [route.page, route.id]);

  if (!session) return <main class="alone">{error ? <Failure error={error} again={() => void look()} /> : <Loading what="the console" />}</main>;
  if (!session.signed_in) return <SignIn onDone={look} />;
  const out = async () => {
    await request("DELETE", "/console/session").catch(() => undefined);
    await look();
  };
  return (
    <Who.Provider value={session}>
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.getElementById("main")?.focus())}>
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href={link("flow")}>
          <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
            <rect width="32" height="32" rx="7" />
            <path d="M5 12c3.700 0 3.700 3 7.300 3s3.700-3 7.400-3 3.700 3 7.300 3M5 19c3.700 0 3.700 3 7.300 3s3.700-3 7.400-3 3.700 3 7.300 3" />
          </svg>
          Weir
        </a>
        <nav aria-label="Pages">
          {shown.map(({ page, name, key }) => (
            <a key={page} href={link(page)} aria-current={route.page === page ? "page" : undefined} title={`g then ${key}`}>
              {name}
            </a>
          ))}
          <a href="/docs/">Docs</a>
        </nav>
        <div class="who">
          <Theme />
          <span class="dim" title={(session.scopes ?? []).join(", ")}>
            {session.mode === "open" ? "open" : `${session.name} · ${session.tenant}`}
          </span>
          {session.mode !== "open" && (
            <button type="button" class="small" onClick={() => void out()}>
              Sign out
            </button>
          )}
        </div>
      </header>
      <main id="main" tabIndex={-1} key={`${session.tenant} ${session.name}`}>
        <Body route={route} />
        <Keys pages={shown} />
      </main>
    </Who.Provider>
  );
}

function Body({ route }: { route: Route }) {
  switch (route.page) {
    case "flow":
      return <Flow route={route} />;
    case "actions":
      return route.id ? <Action key={route.id} id={route.id} /> : <Actions route={route} />;
    case "tasks":
      return route.id ? <TaskPage key={route.id} id={route.id} /> : <Tasks route={route} />;
    case "runs":
      return route.id ? <Run key={route.id} id={route.id} /> : <Runs route={route} />;
    case "dead":
      return <Dead />;
    case "rules":
      return <Rules />;
    case "policy":
      return <PolicyPage route={route} />;
    case "operations":
      return <Operations />;
    case "budgets":
      return <Budgets />;
    case "tokens":
      return <Tokens />;
    case "nodes":
      return <Nodes />;
    case "evidence":
      return <EvidencePage route={route} />;
    default:
      return (
        <Empty title="Page not found.">
          <a href={link("actions")}>Show the actions</a>
        </Empty>
      );
  }
}

const themes = ["system", "light", "dark"] as const;

function Theme() {
  const [theme, set] = useState(() => localStorage.getItem("theme") ?? "system");
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
    if (theme === "system") localStorage.removeItem("theme");
    else localStorage.setItem("theme", theme);
  }, [theme]);
  const next = themes[(themes.indexOf(theme as (typeof themes)[number]) + 1) % themes.length] ?? "system";
  return (
    <button type="button" class="ghost" onClick={() => set(next)} title={`Colours: ${theme}`} aria-label={`Colours: ${theme}. Change to ${next}`}>
      {theme === "dark" ? "☾" : theme === "light" ? "☀" : "◐"}
    </button>
  );
}
