import { instant } from "../call";
import { useNow } from "../live";
import type { ActionEvent } from "../types";
import { millis } from "../ui";

interface Bar {
  key: string;
  name: string;
  from: number;
  to: number | undefined; // undefined: running
  tone: string;
  says: string;
}

/** The attempts of an action as bars over its time. */
export function Waterfall({ events, settled }: { events: ActionEvent[]; settled: boolean }) {
  const now = useNow();
  const first = events[0];
  const bars = barsOf(events);
  if (!first || bars.length === 0) return null;
  const start = instant(first.time);
  const last = Math.max(...events.map((e) => instant(e.time)));
  const end = Math.max(settled ? last : Math.max(now, last), start + 1);
  const at = (t: number) => ((Math.min(Math.max(t, start), end) - start) / (end - start)) * 100;
  return (
    <div class="waterfall" role="img" aria-label={bars.map((b) => `${b.name}: ${b.says}`).join("; ")}>
      {bars.map((b) => (
        <div class="lane" key={b.key} title={`${b.name}: ${b.says}`}>
          <span class="name">{b.name}</span>
          <span class="track">
            <span class={`bar ${b.tone}`} style={{ left: at(b.from) + "%", width: Math.max(at(b.to ?? end) - at(b.from), 0.8) + "%" }} />
          </span>
          <span class="says">{b.says}</span>
        </div>
      ))}
      <div class="lane axis" aria-hidden="true">
        <span class="name" />
        <span class="track">
          <span>0</span>
          <span>{millis(end - start)}</span>
        </span>
        <span class="says" />
      </div>
    </div>
  );
}

function barsOf(events: ActionEvent[]): Bar[] {
  const bars = new Map<string, Bar>();
  for (const e of events) {
    const t = e.attempt ?? e.attempted;
    if (!t) continue;
    const key = `${t.step}.${t.number}.${t.hop ?? 0}.${t.probe ?? 0}`;
    const name = (t.step ? `step ${t.step} ` : "") + (t.probe ? `attempt ${t.probe} probe ${t.number}` : `attempt ${t.number}`) + (t.hop ? ` hop ${t.hop}` : "");
    const when = instant(e.time);
    if (e.attempted) {
      const took = e.attempted.duration_ms;
      const ok = !e.attempted.code && (e.attempted.status ?? 200) < 400;
      bars.set(key, {
        key,
        name,
        from: bars.get(key)?.from ?? when - took,
        to: when,
        tone: ok ? "good" : e.attempted.sent ? "bad" : "plain",
        says: [e.attempted.status, e.attempted.code, e.attempted.effect?.replaceAll("_", " "), millis(took)].filter(Boolean).join(" · "),
      });
    } else {
      bars.set(key, { key, name, from: when, to: undefined, tone: "busy", says: "running" });
    }
  }
  return [...bars.values()].slice(-30);
}
