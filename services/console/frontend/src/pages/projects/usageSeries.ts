// Usage, quota and fair share over time, from the archive; and the newest point, of the live state.
import { archivePath, get, type LiveProject, type ProjectSeries, type QuotaSeries } from "../../api";
import { count, rangeOptions } from "../../lib";
import type { Series } from "../../ui/Chart";
import type { ChartWindow } from "../../shared/chartWindow";

/** What the chart shows of an interval. */
export interface UsagePoint {
  time: string;
  gpus: number;
  quota: number | null;
  fair_share: number | null;
  past_use: number | null;
  borrowed: number | null;
}

export const RANGES = rangeOptions("1h", "6h", "24h", "7d");

/** The series of a project, or of all. Throws `ApiError`. */
export const loadQuotaSeries = (pool: string, { from, end }: ChartWindow, points: number, project: string | null, signal: AbortSignal): Promise<QuotaSeries> =>
  get(archivePath(pool, `quota-series?${new URLSearchParams({ points: `${points}`, from, ...(end !== null && { to: end }), ...(project !== null && { project }) })}`), signal);

/** The intervals of one project. */
export const pointsOf = ({ times }: QuotaSeries, { gpus, quota, fair_share, past_use, borrowed }: ProjectSeries): UsagePoint[] =>
  times.map((time, at) => ({ time, gpus: gpus[at] ?? 0, quota: quota[at] ?? null, fair_share: fair_share[at] ?? null, past_use: past_use[at] ?? null, borrowed: borrowed[at] ?? null }));

/** The points and, as the newest one, the live state: what the archive has ends with its newest record. */
export function withCurrent(points: readonly UsagePoint[], { used, quota, fair_share, past_use, borrowed }: LiveProject, to: string): UsagePoint[] {
  return [...points.filter((point) => point.time < to), { time: to, gpus: used.gpus ?? 0, quota: quota.gpus, fair_share: fair_share.gpus, past_use: past_use.gpus, borrowed: borrowed.gpus }];
}

/** The lines of the chart: what the project uses within its quota and beyond, and used beyond it in the past, if that counts. */
export function usageLines(items: readonly UsagePoint[]): Series[] {
  return [
    { name: "used, within the quota", kind: "stacked", values: items.map((item) => item.gpus - (item.borrowed ?? 0)) },
    { name: "borrowed", kind: "stacked", colour: "--cat-1", values: items.map((item) => item.borrowed ?? 0) },
    { name: "quota", kind: "dashed", values: items.map((item) => item.quota) },
    { name: "fair share", kind: "dotted", values: items.map((item) => item.fair_share) },
    ...(items.some((item) => item.past_use) ? [{ name: "past use", kind: "line" as const, colour: "--cat-2", values: items.map((item) => item.past_use) }] : []),
  ];
}

/** `20 % of the time`. */
export const partText = (part: number): string => (part > 0 && part < 0.01 ? "less than 1 % of the time" : `${Math.round(100 * part)} % of the time`);

/** `Used at most 9 GPUs, and borrowed at most 6, 20 % of the time.` */
export function usageText({ max_gpus, max_borrowed, borrowed_part, quota }: ProjectSeries): string {
  const used = `Used at most ${count(max_gpus, "GPU")}`;
  if (quota.every((each) => each === null)) return `${used}.`;
  return `${used}, and borrowed ${max_borrowed > 0 ? `at most ${max_borrowed}, ${partText(borrowed_part)}` : "nothing"}.`;
}
