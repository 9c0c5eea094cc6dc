// GPU-hours over time, from the query API; docs/how-to/accounting.md defines each figure.
import { archivePath, type Accounting, type AccountingRow } from "../../api";
import { betweenOf, betweenQuery, rangeLength, rangeOptions, userText } from "../../lib";
import { pagePath } from "../../ui";
import { seriesColour, type Series } from "../../ui/Chart";

export type Key = "project" | "user" | "priority_class" | "job" | "gpu_model" | "preemptor";
export const KEYS: readonly [Key, string][] = [
  ["project", "Project"],
  ["user", "User"],
  ["priority_class", "Class"],
  ["gpu_model", "GPU model"],
  ["preemptor", "Preemptor"],
];
export type Figure = "used" | "borrowed" | "lost" | "waiting";
export const FIGURES: readonly [Figure, string][] = [
  ["used", "Used"],
  ["borrowed", "Borrowed"],
  ["lost", "Lost"],
  ["waiting", "Waiting"],
];
export const RANGES = rangeOptions("1h", "24h", "7d", "30d", "1y");
type Range = (typeof RANGES)[number][0];
type Period = "minute" | "hour" | "day";
const HOUR = 3_600_000;
const LENGTHS: Record<Period, number> = { minute: HOUR / 60, hour: HOUR, day: 24 * HOUR };

/** What the address asks for. from, to: ISO times, whose range replaces `range`. */
export interface View {
  by: Key;
  figure: Figure;
  range: Range;
  from: string | null;
  to: string | null;
}

const oneOf = <T extends string>(options: readonly [T, string][], value: string | undefined, otherwise: T): T =>
  options.find(([key]) => key === value)?.[0] ?? otherwise;

/** The view that these parameters of the address describe; unknown values are the defaults. */
export function viewOf(query: Record<string, string>): View {
  const own = betweenOf(query);
  return {
    by: oneOf(KEYS, query.by, "project"),
    figure: oneOf(FIGURES, query.figure, "used"),
    range: oneOf(RANGES, query.range, "24h"),
    from: own?.from ?? null,
    to: own?.to ?? null,
  };
}

/** The address of a view, without its defaults. */
export function viewPath(pool: string, view: View): string {
  const query = new URLSearchParams();
  if (view.by !== "project") query.set("by", view.by);
  if (view.figure !== "used") query.set("figure", view.figure);
  if (view.from !== null && view.to !== null) for (const [name, value] of betweenQuery({ from: view.from, to: view.to })) query.set(name, value);
  else if (view.range !== "24h") query.set("range", view.range);
  return pagePath(pool, ["accounting"], query);
}

export interface TimeWindow {
  from: number;
  to: number;
  period: Period;
}

/** The view's window. now: ms; a range ends at the next full minute, so that the window is the same within a minute. */
export function windowOf(view: View, now: number): TimeWindow {
  const to = view.to !== null ? Date.parse(view.to) : Math.ceil(now / 60_000) * 60_000;
  const from = view.from !== null ? Date.parse(view.from) : to - rangeLength(view.range);
  return { from, to, period: periodOf(from, to) };
}

function periodOf(from: number, to: number): Period {
  const hours = (to - from) / HOUR;
  return hours <= 2 ? "minute" : hours <= 24 * 14 ? "hour" : "day";
}

/**
 * The part of the window that is known: a young pool is not one line at the edge, and the mean of the running period is that of
 * its past.
 */
export function knownPart(found: Accounting, window: TimeWindow): TimeWindow {
  if (found.known_from === null) return window;
  const from = Math.min(window.to - LENGTHS[window.period], Math.max(window.from, Date.parse(found.known_from)));
  const until = found.known_until === null ? window.to : Date.parse(found.known_until);
  const to = until > from ? Math.min(window.to, until) : window.to;
  return { from, to, period: periodOf(from, to) };
}

/** The answer, with users whom no signature shows named as such. */
export const named = (found: Accounting): Accounting => ({ ...found, rows: found.rows.map((row) => ({ ...row, user: row.user && userText(row.user, row.user_verified) })) });

/** The request. by: may name the period. filters: by parameter. */
export function accountingPath(pool: string, by: readonly string[], from: number, to: number, filters: Record<string, string> = {}): string {
  const query = new URLSearchParams(by.map((key) => ["by", key]));
  query.set("from", new Date(from).toISOString());
  query.set("to", new Date(to).toISOString());
  for (const [name, value] of Object.entries(filters)) query.set(name, value);
  return archivePath(pool, `accounting?${query}`);
}

export const OTHERS = "others";
const NONE = "(none)";
/** What a row is for: its value of `by`. */
export const nameOf = (row: AccountingRow, by: Key): string => row[by] ?? ({ preemptor: "no preemption", gpu_model: "no GPU yet" } as Partial<Record<Key, string>>)[by] ?? NONE;

/** An area: mean GPUs in each period. */
interface Area {
  name: string;
  values: number[];
}

export interface Chart {
  times: number[];
  areas: Area[];
  capacity: number[];
}

/** Areas of the largest values, the others as one, and the capacity, as mean GPUs of each period within the window. */
export function chartOf(found: Accounting, by: Key, figure: Figure, { from, to, period }: TimeWindow, most = 7): Chart {
  const length = LENGTHS[period];
  const first = Math.floor(from / length) * length;
  const times = Array.from({ length: Math.ceil((to - first) / length) }, (_, at) => first + at * length);
  const hours = times.map((time) => (Math.min(time + length, to) - Math.max(time, from)) / HOUR);
  const place = (time: string): number => Math.round((Date.parse(time) - first) / length);
  const values = new Map<string, number[]>();
  for (const row of found.rows) {
    const name = nameOf(row, by);
    const at = place(row.time!);
    if (!values.has(name)) values.set(name, times.map(() => 0));
    if (hours[at]) values.get(name)![at]! += row[figure] / hours[at]!;
  }
  const sums = [...values].map(([name, each]) => ({ name, values: each, sum: each.reduce((sum, value, at) => sum + value * hours[at]!, 0) }));
  const sorted = sums.filter((each) => each.sum > 0).sort((one, other) => other.sum - one.sum || (one.name < other.name ? -1 : 1));
  const areas: Area[] = sorted.slice(0, most).map(({ name, values: each }) => ({ name, values: each }));
  const rest = sorted.slice(most);
  if (rest.length) areas.push({ name: OTHERS, values: times.map((_, at) => rest.reduce((sum, each) => sum + each.values[at]!, 0)) });
  const capacity = times.map(() => 0);
  for (const each of found.capacity) {
    const at = place(each.time);
    if (hours[at]) capacity[at] = each.gpu_hours / hours[at]!;
  }
  return { times, areas, capacity };
}

/** The areas, stacked, and the capacity. */
export const chartLines = ({ areas, capacity: known }: Chart, capacity: boolean): Series[] => [
  ...areas.map((area, at): Series => ({ name: area.name, kind: "stacked", colour: seriesColour(area.name === OTHERS ? null : at), values: area.values })),
  ...(capacity ? [{ name: "capacity", kind: "dashed" as const, values: known }] : []),
];

const COLUMNS = ["used", "borrowed", "lost", "lost_other", "restart", "waiting"] as const;

const CSV_NAMES: Partial<Record<Key, string>> = { priority_class: "class", gpu_model: "model" };

/** CSV of these rows, as `bailiff accounting -o csv` writes it. */
export function csvOf(rows: readonly AccountingRow[], by: Key): string {
  const lines = [["time", CSV_NAMES[by] ?? by, ...COLUMNS.map((name) => `${name}_gpu_hours`), "preemptions", "jobs"].join(",")];
  for (const row of rows) {
    lines.push([row.time ?? "", cell(row[by] ?? ""), ...COLUMNS.map((name) => row[name].toFixed(6)), row.preemptions, row.jobs].join(","));
  }
  return `${lines.join("\n")}\n`;
}

/** A text as a CSV cell; one that a spreadsheet would take for a formula begins with an apostrophe. */
function cell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export interface Month {
  text: string;
  from: number;
  to: number;
}

/** The month `2026-10`, else that of `now`; and its neighbours. */
export function monthOf(text: string | undefined, now: number): Month {
  const valid = /^\d{4}-(0[1-9]|1[0-2])$/.test(text ?? "");
  const [year, month] = valid ? text!.split("-").map(Number) : [new Date(now).getUTCFullYear(), new Date(now).getUTCMonth() + 1];
  const from = Date.UTC(year!, month! - 1, 1);
  return { text: new Date(from).toISOString().slice(0, 7), from, to: Date.UTC(year!, month!, 1) };
}

export const neighbour = (month: Month, by: 1 | -1): string => new Date(by === 1 ? month.to : month.from - 1).toISOString().slice(0, 7);
