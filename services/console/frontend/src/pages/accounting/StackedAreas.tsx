import { momentOfChart } from "../../lib/format";
import { areaPath, HEIGHT, linePath, OTHERS, type Chart } from "./accountingData";

/** Stacked areas of mean GPUs, and the capacity as a line. words: what a screen reader says. */
export function StackedAreas({ chart, words, capacity }: { chart: Chart; words: string; capacity: boolean }) {
  const width = chart.times.length;
  const edges = [chart.times.map(() => 0)];
  for (const area of chart.areas) edges.push(edges.at(-1)!.map((value, at) => value + area.values[at]!));
  const round = (value: number): number => (value < 1 ? Number(value.toPrecision(2)) : Math.round(value * 10) / 10);
  return (
    <figure class="areas">
      <div class="areas-frame">
        <span class="areas-most soft number">{round(chart.most)} GPUs</span>
        <svg viewBox={`0 0 ${width} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={words}>
          {chart.areas.map((area, at) => (
            <path key={area.name} class={`area-${area.name === OTHERS ? "others" : at}`} d={areaPath(edges[at]!, edges[at + 1]!, chart.most)}>
              <title>{area.name}</title>
            </path>
          ))}
          {capacity && <path class="areas-capacity" d={linePath(chart.capacity, chart.most)} />}
        </svg>
      </div>
      <p class="areas-times soft number">
        <span>{momentOfChart(chart.times[0]!)}</span>
        <span>{momentOfChart(chart.times.at(-1)!)}</span>
      </p>
      <figcaption>
        <ul class="areas-legend">
          {chart.areas.map((area, at) => (
            <li key={area.name} class="cut">
              <i class={`area-${area.name === OTHERS ? "others" : at}`} aria-hidden="true" /> {area.name}
            </li>
          ))}
          {capacity && (
            <li>
              <i class="areas-line" aria-hidden="true" /> capacity
            </li>
          )}
        </ul>
      </figcaption>
    </figure>
  );
}
