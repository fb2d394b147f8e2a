import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Session } from "./types";

export const Who = createContext<Session>({ mode: "tokens", signed_in: false });

/** Whether the session has a scope. The node checks it again. */
export function useMay(scope: string): boolean {
  const scopes = useContext(Who).scopes ?? [];
  return scopes.includes(scope) || scopes.includes("admin");
}

/** Whether the session may see and hold calls of all tenants: an admin of the operator's tenant. */
export function useOperator(): boolean {
  return useMay("admin") && useContext(Who).tenant === "default";
}
