// The outcome of an action. A body of bytes is a size, a type and a link to download it.
import { useEffect, useMemo } from "preact/hooks";
import { doc } from "../chat";
import { Code, Copy } from "../ui";

interface Bytes {
  raw: Uint8Array<ArrayBuffer>;
  type: string;
  /** The outcome without the bytes. */
  rest: unknown;
}

export function Outcome({ id, value }: { id: string; value: unknown }) {
  const found = useMemo(() => bytes(value), [value]);
  // A type that a browser opens would run a target's script as a page of the console.
  const url = useMemo(() => found && URL.createObjectURL(new Blob([found.raw], { type: "application/octet-stream" })), [found]);
  useEffect(() => () => void (url && URL.revokeObjectURL(url)), [url]);
  if (!found)
    return (
      <>
        <Code value={value} />
        <Copy label="Copy" text={() => JSON.stringify(value, null, 2)} />
      </>
    );
  const ending = /^[a-z]+\/([a-z0-9]+)$/.exec(found.type)?.[1] ?? "bin";
  return (
    <>
      <p>
        Body: {found.raw.length.toLocaleString()} bytes{found.type && ` of ${found.type}`}.{" "}
        <a href={url} download={`${id}.${ending}`}>
          Download
        </a>
      </p>
      <Code value={found.rest} />
    </>
  );
}

/** The binary body in the answer of a call, in its error, or in the outputs or error details of a run. */
function bytes(value: unknown): Bytes | undefined {
  for (const path of [[], ["error"], ["outputs"], ["error", "details"]]) {
    const answer = doc(path.reduce<unknown>((v, name) => doc(v)[name], value));
    const { body, ...rest } = answer;
    if (answer["body_encoding"] !== "base64" || typeof body !== "string") continue;
    const headers = Array.isArray(answer["headers"]) ? (answer["headers"] as { name: string; value: string }[]) : [];
    const type = headers.find((h) => h.name.toLowerCase() === "content-type")?.value.split(";")[0]!.trim().toLowerCase() ?? "";
    const without = path.length === 0 ? rest : inside(value, path, rest);
    return { raw: Uint8Array.from(atob(body), (c) => c.charCodeAt(0)), type, rest: without };
  }
  return undefined;
}

/** A document with another value at a path. */
function inside(value: unknown, [name, ...more]: string[], at: unknown): unknown {
  return name === undefined ? at : { ...doc(value), [name]: inside(doc(value)[name], more, at) };
}
