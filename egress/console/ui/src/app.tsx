import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, onSignedOut, Refusal, request, unreachable } from "./api";
import { Who } from "./who";
import { Action } from "./pages/action";
import { Actions } from "./pages/actions";
import { Dead } from "./pages/dead";
import { EvidencePage } from "./pages/evidence";
import { Flow } from "./pages/flow";
import { PolicyPage } from "./pages/policy";
import { Rules } from "./pages/rules";
import { Run } from "./pages/run";
import { Runs } from "./pages/runs";
import { SignIn } from "./pages/signin";
import { TaskPage } from "./pages/task";
import { Tasks } from "./pages/tasks";
import { link, type Route, useRoute } from "./route";
import type { Session } from "./types";
import { Empty, Failure, Loading } from "./ui";

const pages: [page: string, name: string, key: string][] = [
  ["flow", "Flow", "f"],
  ["actions", "Actions", "a"],
  ["tasks", "Tasks", "t"],
  ["runs", "Runs", "c"],
  ["dead", "Dead letters", "d"],
  ["rules", "Rules", "r"],
  ["policy", "Policy", "p"],
  ["evidence", "Evidence", "e"],
];

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
  useShortcuts();
  useEffect(() => {
    const name = pages.find(([p]) => p === route.page)?.[1] ?? "Weir";
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
          {pages.map(([page, name, key]) => (
            <a key={page} href={link(page)} aria-current={route.page === page ? "page" : undefined} title={`g then ${key}`}>
              {name}
            </a>
          ))}
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
      return <PolicyPage />;
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

/** g and a page's letter goes there; / looks for something. */
function useShortcuts() {
  useEffect(() => {
    let g = 0;
    const press = (e: KeyboardEvent) => {
      const at = e.target as HTMLElement;
      if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName)) return;
      if (e.key === "/") {
        const first = document.querySelector<HTMLInputElement>("input[type=search]");
        if (first) {
          e.preventDefault();
          first.focus();
        }
        return;
      }
      const page = pages.find(([, , key]) => key === e.key);
      if (page && Date.now() - g < 1500) location.hash = link(page[0]);
      g = e.key === "g" ? Date.now() : 0;
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
