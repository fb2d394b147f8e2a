// Figures over time, as lines or as stacked bars.
import { useId, useState } from "preact/hooks";
import { type Axis, length, moment } from "./figures";

export interface Series {
  name: string;
  values: (number | null)[]; // one per step; null: unknown
  dashed?: boolean;
}

interface Props {
  title: string;
  times: string[]; // when each step begins
  step: number; // seconds
  series: Series[];
  axis: Axis;
  say: (v: number | null) => string;
  stacked?: boolean;
}

/** A chart with the exact values of one step: the newest, or the one chosen by pointer or arrow keys.
 * A table has all values. */
export function Chart(p: Props) {
  const id = useId();
  const [chosen, choose] = useState<string>();
  const steps = p.times.length;
  const found = chosen === undefined ? -1 : p.times.indexOf(chosen);
  const at = found >= 0 ? found : newest(p.series, steps);
  const to = (i: number) => choose(p.times[Math.min(Math.max(i, 0), steps - 1)]);
  const point = (e: PointerEvent) => {
    const box = (e.currentTarget as HTMLElement).getBoundingClientRect();
    to(Math.floor(((e.clientX - box.left) / box.width) * steps));
  };
  const press = (e: KeyboardEvent) => {
    const next = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, Home: 0, End: steps - 1, PageUp: at + 10, PageDown: at - 10 }[e.key];
    if (next === undefined) return;
    e.preventDefault();
    to(next);
  };
  const value = (s: Series) => p.say(s.values[at] ?? null);
  const when = moment(p.times[at] ?? "", p.step);
  return (
    <figure class="chart card" aria-labelledby={id}>
      <figcaption>
        <h2 id={id}>{p.title}</h2>
        <span class={found >= 0 ? "" : "dim"}>{when}</span>
      </figcaption>
      <ul class="legend">
        {p.series.map((s) => (
          <li key={s.name}>
            <span class={`swatch c-${s.name}${s.dashed ? " dashed" : ""}`} aria-hidden="true" />
            <span>{s.name.replaceAll("_", " ")}</span>
            <b>{value(s)}</b>
          </li>
        ))}
      </ul>
      <div class="plot">
        <div class="scale" aria-hidden="true">
          {p.axis.ticks.map((t) => (
            <span key={t} style={{ bottom: p.axis.at(t) * 100 + "%" }}>
              {p.axis.text(t)}
            </span>
          ))}
        </div>
        <div
          class="area"
          role="slider"
          tabIndex={0}
          aria-label={`${p.title}: steps of ${length(p.step)}`}
          aria-valuemin={0}
          aria-valuemax={steps - 1}
          aria-valuenow={at}
          aria-valuetext={`${when}: ${p.series.map((s) => `${s.name.replaceAll("_", " ")} ${value(s)}`).join(", ")}`}
          onPointerMove={point}
          onPointerDown={point}
          onPointerLeave={(e) => document.activeElement !== e.currentTarget && choose(undefined)}
          onFocus={() => found < 0 && to(at)}
          onBlur={() => choose(undefined)}
          onKeyDown={press}
        >
          <Drawing {...p} mark={found} />
        </div>
        <div class="times" aria-hidden="true">
          {[0, Math.floor((steps - 1) / 2)].map((i) => (
            <span key={i}>{moment(p.times[i] ?? "", p.step)}</span>
          ))}
          <span>now</span>
        </div>
      </div>
      <Table {...p} />
    </figure>
  );
}

/** The last step with a known value. */
function newest(series: Series[], steps: number): number {
  for (let i = steps - 1; i > 0; i--) {
    if (series.some((s) => (s.values[i] ?? null) !== null)) return i;
  }
  return steps - 1;
}

/** One unit of width is one step; the height is 100. CSS stretches it. */
function Drawing({ series, axis, stacked, times, mark }: Props & { mark: number }) {
  const steps = times.length;
  const y = (v: number) => (100 * (1 - axis.at(v))).toFixed(2);
  const below: number[] = new Array<number>(steps).fill(0);
  return (
    <svg viewBox={`0 0 ${steps} 100`} preserveAspectRatio="none" aria-hidden="true">
      {axis.ticks.map((t) => (
        <line key={t} class="grid" x1="0" x2={steps} y1={y(t)} y2={y(t)} />
      ))}
      {mark >= 0 && stacked && <rect class="mark-step" x={mark} y="0" width="1" height="100" />}
      {series.map((s) =>
        stacked ? <path key={s.name} class={`fill c-${s.name}`} d={bars(s.values, below, y)} /> : <path key={s.name} class={`line c-${s.name}${s.dashed ? " dashed" : ""}`} d={line(s.values, y)} />,
      )}
      {mark >= 0 && !stacked && <line class="mark-line" x1={mark + 0.5} x2={mark + 0.5} y1="0" y2="100" />}
    </svg>
  );
}

/** A line through the middles of the steps, with gaps at unknown values. A lone value is as long as
 * its step. */
function line(values: (number | null)[], y: (v: number) => string): string {
  const known = (i: number) => (values[i] ?? null) !== null;
  let d = "";
  values.forEach((v, i) => {
    if (v === null) return;
    if (!known(i - 1) && !known(i + 1)) d += `M${i} ${y(v)}h1`;
    else d += `${known(i - 1) ? "L" : "M"}${i + 0.5} ${y(v)}`;
  });
  return d;
}

/** Bars on top of the earlier ones. */
function bars(values: (number | null)[], below: number[], y: (v: number) => string): string {
  let d = "";
  values.forEach((v, i) => {
    if (!v) return;
    const from = below[i] ?? 0;
    below[i] = from + v;
    d += `M${i + 0.08} ${y(from)}V${y(from + v)}h.84V${y(from)}z`;
  });
  return d;
}

function Table({ title, times, step, series, say }: Props) {
  const [open, set] = useState(false);
  return (
    <details class="figures" onToggle={(e) => set(e.currentTarget.open)}>
      <summary>
        Show as table<span class="hidden">: {title}</span>
      </summary>
      {open && (
        <div class="scroll" tabIndex={0} role="region" aria-label={`${title}: table`}>
          <table>
            <thead>
              <tr>
                <th scope="col">Start ({length(step)} each)</th>
                {series.map((s) => (
                  <th scope="col" key={s.name}>
                    {s.name.replaceAll("_", " ")}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {times.map((t, i) => (
                <tr key={t}>
                  <th scope="row">{moment(t, step)}</th>
                  {series.map((s) => (
                    <td key={s.name}>{say(s.values[i] ?? null)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
