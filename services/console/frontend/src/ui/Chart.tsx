import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { cssValues, momentOfChart, themeVersion, TIME_STEPS, timeZone } from "../lib";
import "./chart.css";

/** Between the ticks of an axis of values: no quarters of what is counted, such as 2.5 GPUs. */
const STEPS = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** (power - 3))).flat();

/** kind: line, dashed or dotted line, area from 0, or stacked on the areas before it. colour: a CSS variable. */
export interface Series {
  name: string;
  kind: "line" | "dashed" | "dotted" | "area" | "stacked";
  colour?: string;
  values: readonly (number | null)[];
}

const STACK = [0, 1, 2, 3, 4, 5, 7];

/** The colour of the so-manyth of equal series; null: of all the others. */
export const seriesColour = (at: number | null): string => `--cat-${at === null ? 8 : STACK[at % STACK.length]}`;

interface Props {
  /** ms. A value holds until the next time, the last one until `until`. */
  times: readonly number[];
  until: number;
  series: readonly Series[];
  unit: string;
  /** The axis reaches at least this. */
  most?: number;
  /** The same as a sentence, for screen readers. */
  label: string;
}

const HEIGHT = 210;
const STYLES = { line: [2, []], dashed: [1.5, [7, 4]], dotted: [1.5, [2, 3]], area: [2, []], stacked: [1, []] } as const;
const COLOURS = { line: "--accent", dashed: "--ink", dotted: "--cat-5", area: "--accent", stacked: "--accent" };

/** Values over time as steps, with axes, a grid, the values at the pointer, and zoom: drag, double-click for all; by key ← → + −. */
export function Chart({ times, until, series, unit, most = 0, label }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const at = useSignal<number | null>(null);
  const shape = series.map((each) => `${each.name} ${each.kind} ${each.colour}`).join("\n");
  const data = columns(times, until, series);
  const shown = useRef(data);
  shown.current = data;
  const theme = themeVersion.value;

  useEffect(() => {
    const element = box.current!;
    const instance = new uPlot(options(element, series, most, (index) => (at.value = index)), shown.current, element);
    plot.current = instance;
    const watch = new ResizeObserver(() => instance.setSize({ width: element.clientWidth, height: HEIGHT }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      instance.destroy();
    };
  }, [theme, timeZone.value, shape, most]);
  useEffect(() => {
    const instance = plot.current!;
    const all = instance.data[0];
    const { min, max } = instance.scales.x!;
    const zoomed = min !== all[0] || max !== all.at(-1);
    instance.setData(data, !zoomed);
  }, [times, until, series]);

  const onKey = (event: KeyboardEvent): void => {
    const instance = plot.current!;
    const last = shown.current[0].length - 2;
    const { min, max } = instance.scales.x!;
    const index = at.value ?? last;
    const zoom = (factor: number): void => {
      const around = shown.current[0][index]!;
      const [from, to] = [around - (around - min!) * factor, around + (max! - around) * factor];
      instance.setScale("x", { min: Math.max(from, shown.current[0][0]!), max: Math.min(to, shown.current[0].at(-1)!) });
    };
    const point = (next: number): void => {
      at.value = Math.max(0, Math.min(last, next));
      instance.setCursor({ left: instance.valToPos(shown.current[0][at.value]!, "x"), top: 0 }, false);
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowLeft") point(index - 1);
    else if (event.key === "ArrowRight") point(index + 1);
    else if (event.key === "+" || event.key === "=") zoom(0.5);
    else if (event.key === "-") zoom(2);
    else return;
    event.preventDefault();
  };

  const index = at.value !== null && at.value < times.length ? at.value : times.length - 1;
  const rounded = (value: number): string => (Math.abs(value) < 1 ? Number(value.toPrecision(2)) : Math.round(value * 10) / 10).toLocaleString("en");
  return (
    <figure class="chart">
      <div ref={box} class="chart-plot" tabIndex={0} role="group" aria-label={`${label} Arrow keys show single values, + and − zoom.`} onKeyDown={onKey} />
      <figcaption class="row chart-legend" aria-live="off">
        {series.map((each) => (
          <span key={each.name} class="cut" data-kind={each.kind} style={{ "--own": `var(${each.colour ?? COLOURS[each.kind]})` }}>
            {each.name} <strong class="number">{each.values[index] == null ? "–" : rounded(each.values[index]!)}</strong>
          </span>
        ))}
        <span class="soft number">{unit}{times.length > 0 && `, ${at.value === null ? "last: " : ""}${momentOfChart(times[index]!)}`}</span>
      </figcaption>
    </figure>
  );
}

/** The columns of the plot: seconds, and the values; those of stacked series are sums, and the last is repeated at the end. */
export function columns(times: readonly number[], until: number, series: readonly Series[]): uPlot.AlignedData {
  const end = Math.max(until, (times.at(-1) ?? 0) + 1);
  let below: readonly number[] = times.map(() => 0);
  const values = series.map(({ kind, values: own }) => {
    if (kind !== "stacked") return own;
    below = own.map((value, at) => below[at]! + (value ?? 0));
    return below;
  });
  return [[...times, end].map((time) => time / 1000), ...values.map((each) => [...each, each.at(-1) ?? null])] as uPlot.AlignedData;
}

function options(element: HTMLElement, series: readonly Series[], most: number, onAt: (index: number | null) => void): uPlot.Options {
  const colour = cssValues(element);
  const axis: uPlot.Axis = { stroke: colour("--ink-soft"), font: `12px ${colour("--font")}`, grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
  const stepped = uPlot.paths.stepped!({ align: 1 });
  const stacked = series.map((each, at) => (each.kind === "stacked" ? at + 1 : 0)).filter(Boolean);
  return {
    width: element.clientWidth,
    height: HEIGHT,
    tzDate: (seconds) => (timeZone.peek() === "utc" ? uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000)),
    legend: { show: false },
    padding: [null, 30, null, null], // half of the last tick's text
    cursor: { y: false, points: { size: 7 }, drag: { x: true, y: false } },
    scales: { y: { range: (_, __, highest) => [0, Math.max(most, highest * 1.06, 1e-3)] } },
    axes: [
      { ...axis, space: 90, incrs: TIME_STEPS, values: [[86_400, "{MM}-{DD}", null, null, null, null, null, null, 0], [60, "{HH}:{mm}", "\n{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] },
      { ...axis, size: 50, space: 34, incrs: STEPS },
    ],
    series: [
      {},
      ...series.map((each): uPlot.Series => {
        const [width, dash] = STYLES[each.kind];
        const own = colour(each.colour ?? COLOURS[each.kind]);
        const filled = each.kind === "area" || (each.kind === "stacked" && each === series.find((one) => one.kind === "stacked"));
        return { label: each.name, stroke: own, width, dash: [...dash], paths: stepped, points: { show: false }, ...(filled && { fill: `${own}${each.kind === "area" ? "4d" : "99"}` }) };
      }),
    ],
    bands: stacked.slice(1).map((at, place) => ({ series: [at, stacked[place]!] as [number, number], fill: `${colour(series[at - 1]!.colour ?? "--accent")}99` })),
    hooks: { setCursor: [(instance) => onAt(instance.cursor.idx ?? null)] },
  };
}
