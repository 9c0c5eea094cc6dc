// The use of a pool in each interval of a time range, from the archive, and now, from the live state.
import { archivePath, get, type LiveJob, type LiveNode, type Overview, type OverviewPoint } from "../api";
import type { Series } from "../ui/Chart";
import { healthyGpus } from "./nodes";

/** The means of at most `points` intervals of a time range. to: null is the newest record. Throws `ApiError`. */
export const loadOverview = (pool: string, from: string, to: string | null, points: number, signal: AbortSignal): Promise<Overview> =>
  get(archivePath(pool, `overview?${new URLSearchParams({ points: `${points}`, from, ...(to !== null && { to }) })}`), signal);

/** Healthy GPUs, of drained nodes, too; none of lost nodes. The archive counts the same. */
export const capacityOf = (nodes: Iterable<LiveNode>): number => [...nodes].filter((node) => node.state !== "lost").reduce((sum, node) => sum + healthyGpus(node), 0);

/** Points at equal distances: a missing one repeats the one before, before the first there is none. */
export function filled(overview: Overview): OverviewPoint[] {
  const { interval_s: step, points } = overview;
  if (!points.length || !step) return [];
  const start = Date.parse(overview.from);
  const size = Math.min(500, Math.max(1, Math.round((Date.parse(overview.to) - start) / 1000 / step)));
  const found: OverviewPoint[] = [];
  const byStep = new Map(points.map((point) => [Math.round((Date.parse(point.time) - start) / 1000 / step), point]));
  const first = Math.min(...byStep.keys());
  let last = points[0]!;
  for (let at = first; at < Math.max(size, first + 1); at += 1) {
    last = byStep.get(at) ?? last;
    found.push({ ...last, time: new Date(start + at * step * 1000).toISOString() });
  }
  return found;
}

/** Percent of the capacity that was in use; null: no samples. */
export function allocation(points: readonly OverviewPoint[]): number | null {
  const capacity = points.reduce((sum, point) => sum + point.capacity, 0);
  return capacity > 0 ? Math.round((100 * points.reduce((sum, point) => sum + point.gpus, 0)) / capacity) : null;
}

/** The newest point, of the live state: what the archive has ends with its newest record. */
export function currentPoint(time: string, row: { gpus_allocated: number }, nodes: Iterable<LiveNode>, jobs: Iterable<LiveJob>): OverviewPoint {
  let waiting = 0;
  for (const job of jobs) if (job.state === "pending") waiting += job.gpus;
  return { time, gpus: row.gpus_allocated, capacity: capacityOf(nodes), waiting };
}

/** What is in use, and the capacity, as lines of a chart. */
export const usedLines = (points: readonly OverviewPoint[]): Series[] => [
  { name: "in use", kind: "area", values: points.map((point) => point.gpus) },
  { name: "capacity", kind: "dashed", values: points.map((point) => point.capacity) },
];
