// The command palette and the keys of the console.
import { useEffect, useRef, useState } from "preact/hooks";
import { link } from "./route";
import { Dialog } from "./ui";

export interface PageName {
  page: string;
  name: string;
  key: string;
}

interface Command {
  name: string;
  to: string;
}

/** Keys: / or Ctrl+K opens the palette, ? the help, g and a letter a page, j and k move in a list. */
export function Keys({ pages }: { pages: PageName[] }) {
  const [open, set] = useState<"" | "palette" | "help">("");
  useEffect(() => {
    let g = 0;
    const press = (e: KeyboardEvent) => {
      const at = e.target as HTMLElement;
      if (e.key === "k" && (e.ctrlKey || e.metaKey) && !e.altKey && !document.querySelector("dialog[open]")) {
        e.preventDefault();
        return set("palette");
      }
      if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) || document.querySelector("dialog[open]")) return;
      if (e.key === "/" || e.key === "?") {
        e.preventDefault();
        return set(e.key === "/" ? "palette" : "help");
      }
      const page = Date.now() - g < 1500 && pages.find((p) => p.key === e.key);
      g = e.key === "g" ? Date.now() : 0;
      if (page) location.hash = link(page.page);
      else if (e.key === "j" || e.key === "k") step(e.key === "j" ? 1 : -1);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [pages]);
  const close = () => set("");
  if (open === "palette") return <Palette pages={pages} onClose={close} />;
  return open === "help" ? <Help pages={pages} onClose={close} /> : null;
}

/** Moves the focus to the first link or button of the next or the previous row. */
function step(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>("main table.rows tbody tr, main .records > li, main .board .task")];
  const now = rows.findIndex((r) => r.contains(document.activeElement));
  const next = rows[Math.min(Math.max(now < 0 ? (by > 0 ? 0 : rows.length - 1) : now + by, 0), rows.length - 1)];
  next?.querySelector<HTMLElement>("a[href]:not([tabindex]), button.link, button, summary")?.focus();
}

function commands(pages: PageName[], text: string): Command[] {
  const t = text.trim();
  const found = pages.filter((p) => p.name.toLowerCase().includes(t.toLowerCase())).map((p) => ({ name: `Go to ${p.name}`, to: link(p.page) }));
  if (!t) return found;
  return [...found, { name: `Search actions for “${t}”`, to: link("actions", "", { q: t }) }, { name: `Open the action ${t}`, to: link("actions", t) }, { name: `Open the task ${t}`, to: link("tasks", t) }];
}

function Palette({ pages, onClose }: { pages: PageName[]; onClose: () => void }) {
  const [text, set] = useState("");
  const [at, move] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const all = commands(pages, text);
  const chosen = Math.min(at, all.length - 1);
  const go = (c: Command | undefined) => {
    if (!c) return;
    location.hash = c.to;
    onClose();
  };
  const press = (e: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (by) {
      e.preventDefault();
      move((chosen + by + all.length) % all.length);
    }
    if (e.key === "Enter") {
      e.preventDefault();
      go(all[chosen]);
    }
  };
  return (
    <Dialog title="Commands" onClose={onClose}>
      <input
        ref={input}
        type="search"
        aria-label="Command"
        aria-controls="commands"
        aria-activedescendant={`command-${chosen}`}
        value={text}
        placeholder="A page, an id, or text of a call"
        spellcheck={false}
        autocomplete="off"
        onInput={(e) => (set(e.currentTarget.value), move(0))}
        onKeyDown={press}
      />
      <ul class="commands" id="commands" role="listbox" aria-label="Commands">
        {all.map((c, n) => (
          <li key={c.to} id={`command-${n}`} role="option" aria-selected={n === chosen} onPointerMove={() => move(n)} onClick={() => go(c)}>
            {c.name}
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

function Help({ pages, onClose }: { pages: PageName[]; onClose: () => void }) {
  const keys: [string, string][] = [
    ["/ or Ctrl+K", "Commands and search"],
    ["j, k", "Next and previous row"],
    ["Enter", "Open the row"],
    ["?", "This help"],
    ...pages.map((p): [string, string] => [`g ${p.key}`, p.name]),
  ];
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="facts keys">
        {keys.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
