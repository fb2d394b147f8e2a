// The fragment of the URL holds the route, so that no id reaches a server's log.
import { useEffect, useState } from "preact/hooks";

export interface Route {
  page: string;
  id: string;
  params: URLSearchParams;
}

export function parse(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [page = "", ...rest] = path.split("/");
  return { page: page || "flow", id: decode(rest.join("/")), params: new URLSearchParams(search) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function link(page: string, id = "", params: Record<string, string> = {}): string {
  const q = new URLSearchParams(Object.entries(params).filter(([, v]) => v !== "")).toString();
  return `#/${page}${id && "/" + encodeURIComponent(id)}${q && "?" + q}`;
}

export function useRoute(): Route {
  const [hash, set] = useState(location.hash);
  useEffect(() => {
    const changed = () => set(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return parse(hash);
}

/** Changes the parameters of the route without a new history entry. */
export function refine(route: Route, change: Record<string, string>): void {
  const params = { ...Object.fromEntries(route.params), ...change };
  history.replaceState(null, "", link(route.page, route.id, params));
  dispatchEvent(new HashChangeEvent("hashchange"));
}
