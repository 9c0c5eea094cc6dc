// The figures of the overview, and what needs a person.
import type { Attention, LiveJob, LiveNode, Overview, OverviewPoint, Utilisation } from "../../api";
import { count, duration, rangeOptions } from "../../lib";
import { healthyGpus } from "../../shared/nodes";

/** Healthy GPUs, of drained nodes, too; none of lost nodes. The archive counts the same. */
export const capacityOf = (nodes: Iterable<LiveNode>): number => [...nodes].filter((node) => node.state !== "lost").reduce((sum, node) => sum + healthyGpus(node), 0);

export const RANGES = rangeOptions("1h", "24h", "7d");
export const rangeOf = (text: string | undefined): (typeof RANGES)[number][0] => RANGES.find(([each]) => each === text)?.[0] ?? "1h";

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

export const waitedText = (seconds: number | null): string => (seconds === null ? "–" : duration(seconds));

/** Something that needs a person. node, job: what it is about. */
export interface Concern {
  key: string;
  tone: "bad" | "warn";
  what: string;
  text: string;
  node?: string;
  job?: string;
  seq?: number | null;
  at?: string | null;
}

const MOST_PER_KIND = 20;

/** What needs a person, most urgent first. At most 20 of each kind. */
export function concerns(nodes: Iterable<LiveNode>, jobs: Iterable<LiveJob>, attention: Attention | undefined): Concern[] {
  const found: Concern[] = [];
  const rows = [...nodes];
  const some = <T>(of: T[], concern: (each: T) => Concern): void => void found.push(...of.slice(0, MOST_PER_KIND).map(concern));
  some(attention?.alarms ?? [], (each) => ({ key: `alarm ${each.code} ${each.source}`, tone: "bad", what: `Alarm ${each.code}${each.source === "not verified" ? " (sender not verified)" : ""}`, text: `${each.text}${each.count > 1 ? ` (${each.count} times)` : ""}`, seq: each.seq, at: each.last }));
  some(rows.filter((node) => node.state === "lost" || node.state === "unreachable"), (node) => ({ key: `node ${node.node}`, tone: "bad", what: node.state === "lost" ? "Lost node" : "Silent node", text: node.state === "lost" ? "its jobs are requeued" : "its jobs may still run, and no new ones are placed", node: node.node }));
  some(rows.filter((node) => node.devices.some(([state]) => state === "quarantined")), (node) => {
    const bad = node.devices.filter(([state]) => state === "quarantined");
    return { key: `quarantined ${node.node}`, tone: "bad", what: `${count(bad.length, "quarantined GPU")}`, text: bad.find((cell) => cell[4])?.[4] ?? "until it is cleared", node: node.node };
  });
  some(rows.filter((node) => node.devices.some(([state]) => state === "unhealthy")), (node) => ({ key: `unhealthy ${node.node}`, tone: "warn", what: count(node.devices.filter(([state]) => state === "unhealthy").length, "unhealthy GPU"), text: node.devices.find((cell) => cell[0] === "unhealthy")?.[4] ?? "", node: node.node }));
  some(attention?.late ?? [], (each) => ({ key: `late ${each.job}`, tone: "warn", what: "Late start", text: `class ${each.priority_class} should start within ${duration(each.within_s)}`, job: each.job, at: each.since }));
  some([...jobs].filter((job) => job.state === "suspended"), (job) => ({ key: `suspended ${job.job}`, tone: "warn", what: "Suspended job", text: job.note, job: job.job }));
  return found;
}

/** The part of the measurements before `to`; null: all. */
export function until(measured: Utilisation, to: string | null): Utilisation {
  const end = to === null ? measured.times.length : measured.times.filter((time) => time * 1000 < Date.parse(to)).length;
  return { ...measured, times: measured.times.slice(0, end), busy: measured.busy.slice(0, end) };
}

/** The newest point, of the live state: what the archive has ends with its newest record. */
export function currentPoint(time: string, row: { gpus_allocated: number }, nodes: Iterable<LiveNode>, jobs: Iterable<LiveJob>): OverviewPoint {
  let waiting = 0;
  for (const job of jobs) if (job.state === "pending") waiting += job.gpus;
  return { time, gpus: row.gpus_allocated, capacity: capacityOf(nodes), waiting };
}
