import "./linechart.css";

export interface Line {
  name: string;
  /** One of the styles of linechart.css. */
  kind: "area" | "solid" | "dashed" | "dotted";
  values: readonly (number | null)[];
}

const WIDTH = 600;
const HEIGHT = 150;

/** Time series as steps, on one scale from 0. label: the same as a sentence; the ends of the axis are written below. */
export function LineChart({ lines, most, from, to, label, unit }: { lines: readonly Line[]; most?: number; from: string; to: string; label: string; unit: string }) {
  const top = Math.max(most ?? 0, 1e-9, ...lines.flatMap((line) => line.values.map((value) => value ?? 0)));
  return (
    <figure class="linechart">
      <p class="linechart-top soft number">
        {Math.round(top * 10) / 10} {unit}
      </p>
      <div class="linechart-frame">
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
          <title>{label}</title>
          {lines.map((line) => (
            <path key={line.name} class="linechart-line" data-kind={line.kind} d={stepPath(line.values, top, line.kind === "area")} vector-effect="non-scaling-stroke" />
          ))}
        </svg>
      </div>
      <div class="linechart-times soft number">
        <span>{from}</span>
        <span>{to}</span>
      </div>
      <ul class="linechart-legend">
        {lines.map((line) => (
          <li key={line.name} data-kind={line.kind}>
            {line.name}
          </li>
        ))}
      </ul>
    </figure>
  );
}

/** The SVG path of a series; unknown values are gaps. area: closed at 0. */
export function stepPath(values: readonly (number | null)[], top: number, area: boolean): string {
  const width = WIDTH / Math.max(1, values.length);
  const y = (value: number): string => (HEIGHT - 2 - (value / top) * (HEIGHT - 6)).toFixed(1);
  const parts: string[] = [];
  let open = false;
  values.forEach((value, at) => {
    const [left, right] = [(at * width).toFixed(1), ((at + 1) * width).toFixed(1)];
    if (value === null) {
      if (open && area) parts.push(`V${HEIGHT}Z`);
      open = false;
      return;
    }
    parts.push(open ? `V${y(value)}H${right}` : area ? `M${left} ${HEIGHT}V${y(value)}H${right}` : `M${left} ${y(value)}H${right}`);
    open = true;
  });
  if (open && area) parts.push(`V${HEIGHT}Z`);
  return parts.join("");
}
