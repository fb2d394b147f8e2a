// What a task has pushed, file by file.
import { useMemo, useState } from "preact/hooks";
import { text } from "../api";
import { count } from "../figures";
import { useReading } from "../live";
import type { Task } from "../tasks";
import { Failure, Loading } from "../ui";

interface File {
  name: string;
  head: number; // lines before the first change
  lines: string[];
  added: number;
  removed: number;
}

const shown = 400; // lines of files that are open at first

/** The files of a diff as git prints it. Lines after the last file say where it is cut. */
function files(diff: string): { files: File[]; cut: string } {
  const [body = "", cut = ""] = diff.split(/\n(?=\nThe diff is cut here)/);
  const of = body.split(/(?<=^|\n)(?=diff --git )/).filter(Boolean);
  return {
    cut: cut.trim(),
    files: of.map((part) => {
      const lines = part.replace(/\n$/, "").split("\n");
      const hunk = lines.findIndex((l) => l.startsWith("@@"));
      const head = hunk < 0 ? lines.length : hunk; // a binary file has no lines
      const changes = lines.slice(head);
      const many = (sign: string) => changes.filter((l) => l.startsWith(sign)).length;
      const named = lines.slice(0, head).reverse().map((l) => /^(?:\+\+\+ b\/|--- a\/|rename to )(.*)$/s.exec(l)?.[1]);
      const name = named.find((n) => n !== undefined);
      return { name: name ?? lines[0]!.replace(/^diff --git a\/.* b\//, ""), head, lines, added: many("+"), removed: many("-") };
    }),
  };
}

export function Diff({ t }: { t: Task }) {
  const read = (signal: AbortSignal) => text(`/v1/tasks/${encodeURIComponent(t.id)}/diff`, signal);
  const { data, error, again } = useReading(`the diff of ${t.id} to ${t.head}`, read, 0);
  const all = useMemo(() => data !== undefined && files(data), [data]);
  let lines = 0;
  return (
    <section class="card" aria-labelledby="h-diff">
      <h2 id="h-diff">
        Changes <span class="dim">{all && `${count(all.files.length)} ${all.files.length === 1 ? "file" : "files"}`}</span>
      </h2>
      {error?.status === 404 ? <p class="dim">{error.message}</p> : <Failure error={error} again={again} />}
      {!all && !error && <Loading what="the diff" />}
      {all && all.files.map((f, i) => <Changed key={i} f={f} open={(lines += f.lines.length) <= shown} />)}
      {all && all.cut && <p class="dim">{all.cut}</p>}
    </section>
  );
}

function Changed({ f, open }: { f: File; open: boolean }) {
  const [on, set] = useState(open);
  return (
    <details class="diff" open={open} onToggle={(e) => set(e.currentTarget.open)}>
      <summary>
        <span class="mono wrap">{f.name}</span> <span class="good-text">+{f.added}</span> <span class="bad-text">−{f.removed}</span>
      </summary>
      {on && (
        <pre class="code" tabIndex={0}>
          {f.lines.map((l, n) => (
            <span key={n} class={n < f.head || l.startsWith("@@") ? "hunk" : l.startsWith("+") ? "add" : l.startsWith("-") ? "del" : ""}>
              {l + "\n"}
            </span>
          ))}
        </pre>
      )}
    </details>
  );
}
