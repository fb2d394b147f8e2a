export type Doc = Record<string, unknown>;

const isDoc = (v: unknown): v is Doc => typeof v === "object" && v !== null && !Array.isArray(v);

/** The merge patch from one document to another: null removes a member, lists are replaced. */
export function diff(before: Doc, after: Doc): Doc {
  const out: Doc = {};
  for (const name of Object.keys(before)) {
    if (!(name in after)) out[name] = null;
  }
  for (const [name, value] of Object.entries(after)) {
    const old = before[name];
    if (isDoc(old) && isDoc(value)) {
      const inner = diff(old, value);
      if (Object.keys(inner).length) out[name] = inner;
    } else if (JSON.stringify(old) !== JSON.stringify(value)) {
      out[name] = value;
    }
  }
  return out;
}
