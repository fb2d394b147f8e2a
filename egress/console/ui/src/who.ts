import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Session } from "./types";

export const Who = createContext<Session>({ mode: "tokens", signed_in: false });

/** Whether whoever is signed in may do what a scope is for. The node asks again. */
export function useMay(scope: string): boolean {
  const scopes = useContext(Who).scopes ?? [];
  return scopes.includes(scope) || scopes.includes("admin");
}
