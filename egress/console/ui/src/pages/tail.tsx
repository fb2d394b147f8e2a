import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

const near = 32; // pixels that count as the end

/** A box that grows at its end and follows it. After the reader scrolls up it stays, with a button to
 * the newest. A new value of of means growth. */
export function Tailed({ label, of, children }: { label: string; of: unknown; children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const [away, set] = useState(false);
  const end = () => {
    const b = box.current;
    if (b) b.scrollTop = b.scrollHeight;
  };
  useLayoutEffect(() => {
    if (!away) end();
  }, [of, away]);
  const scrolled = () => {
    const b = box.current!;
    set(b.scrollHeight - b.scrollTop - b.clientHeight > near);
  };
  return (
    <div class="tail">
      <div class="tail-box" ref={box} onScroll={scrolled} tabIndex={0} role="region" aria-label={label}>
        {children}
      </div>
      {away && (
        <button type="button" class="fresh" onClick={() => (set(false), end())}>
          Newest
        </button>
      )}
    </div>
  );
}

/** A text of which only the newest part is kept. */
export function Newest({ of, class: name }: { of: { text: string; cut: number }; class?: string }) {
  return (
    <div class={`words ${name ?? ""}`}>
      {of.cut > 0 && <p class="dim">{of.cut.toLocaleString("en")} earlier characters are not shown.</p>}
      {of.text}
    </div>
  );
}
