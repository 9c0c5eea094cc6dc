import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { timeZone } from "../../lib/timeZone";
import { themeVersion } from "../../shell/theme";
import { columns, type UsageItem } from "./usageSeries";

const HEIGHT = 230;
const TIME_STEPS = [1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800];

/** Chart of usage, quota and fair share; borrowed GPUs are filled. onAt: the item under the pointer; null: none. */
export function UsageChart({ items, axis, words, onAt }: { items: readonly UsageItem[]; axis: [number, number]; words: string; onAt: (item: UsageItem | null) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shown = useRef(items);
  shown.current = items;
  const span = useRef(axis);
  span.current = axis;
  const theme = themeVersion.value;

  useEffect(() => {
    const element = box.current!;
    const instance = new uPlot(options(element, span, (at) => onAt(at === null ? null : (shown.current[at] ?? shown.current.at(-1) ?? null))), columns(shown.current, span.current[1]) as uPlot.AlignedData, element);
    plot.current = instance;
    const watch = new ResizeObserver(() => instance.setSize({ width: element.clientWidth, height: HEIGHT }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      instance.destroy();
    };
  }, [theme, timeZone.value]);
  useEffect(() => plot.current?.setData(columns(items, axis[1]) as uPlot.AlignedData), [items, axis[0], axis[1]]);
  return <div class="usage-chart" ref={box} role="img" aria-label={words} />;
}

function options(element: HTMLElement, span: { current: [number, number] }, onAt: (at: number | null) => void): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const font = `12px ${colour("--font")}`;
  const axis: uPlot.Axis = { stroke: colour("--ink-soft"), font, grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
  const stepped = uPlot.paths.stepped!({ align: 1 });
  return {
    width: element.clientWidth,
    height: HEIGHT,
    tzDate: (seconds) => timeZone.peek() === "utc" ? uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000),
    legend: { show: false },
    cursor: { y: false, points: { size: 7 } },
    scales: { x: { range: () => span.current }, y: { range: (_, __, most) => [0, Math.max(1, most * 1.08)] } },
    axes: [
      { ...axis, space: 90, incrs: TIME_STEPS, values: [[86_400, "{MM}-{DD}", null, null, null, null, null, null, 0], [60, "{HH}:{mm}", "\n{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] },
      { ...axis, size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000] },
    ],
    series: [
      {},
      { stroke: colour("--accent"), width: 2, paths: stepped, points: { show: false } },
      { stroke: colour("--ink"), width: 1.5, dash: [7, 4], paths: stepped, points: { show: false } },
      { stroke: colour("--ink-soft"), width: 1.5, dash: [2, 3], paths: stepped, points: { show: false } },
      { stroke: "transparent", width: 0, paths: stepped, points: { show: false } },
    ],
    bands: [{ series: [4, 2], fill: `${colour("--cat-1")}88` }],
    hooks: { setCursor: [(instance) => onAt(instance.cursor.idx ?? null)] },
  };
}
