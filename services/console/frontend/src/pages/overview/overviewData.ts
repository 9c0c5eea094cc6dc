// The figures of the overview, and what needs a person.
import type { Attention, LiveJob, LiveNode, Utilisation } from "../../api";
import { count, duration, rangeOptions } from "../../lib";

export const RANGES = rangeOptions("1h", "24h", "7d");

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
