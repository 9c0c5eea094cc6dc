import { useLocation } from "preact-iso";

import { betweenOf, betweenQuery, rangeStart, type Range } from "../lib";
import { TimeRangePicker } from "../ui";

/** The time range of the charts. end: null: up to now. key: changes when another range is chosen. */
export interface ChartWindow {
  key: string;
  from: string;
  end: string | null;
}

/** The time range in the address, and its picker. to: the newest time of the log. usual: the preset of an address without one. */
export function useChartWindow<R extends Range>(to: string | null, presets: readonly [R, string][], usual: R): { over: ChartWindow | null; picker: preact.JSX.Element | null } {
  const { path, query, route } = useLocation();
  if (to === null) return { over: null, picker: null };
  const range = presets.find(([each]) => each === query.range)?.[0] ?? usual;
  const own = betweenOf(query);
  const go = (chosen: [string, string][]): void => {
    const others = Object.entries(query).filter(([name]) => !["range", "from", "to"].includes(name));
    const search = new URLSearchParams([...others, ...chosen]).toString();
    route(search ? `${path}?${search}` : path, true);
  };
  const from = own?.from ?? rangeStart(to, range);
  return {
    over: { key: own ? `${own.from} ${own.to}` : range, from, end: own?.to ?? null },
    picker: <TimeRangePicker presets={presets} value={own ? null : range} between={{ from, to: own?.to ?? to }} onPreset={(next) => go(next === usual ? [] : [["range", next]])} onBetween={(next) => go(betweenQuery(next))} />,
  };
}
