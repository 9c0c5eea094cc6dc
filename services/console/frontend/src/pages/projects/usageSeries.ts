// A project's usage over time, as recorded by the archive about once a minute.
import { archivePath, get, type Page } from "../../lib/api";
import type { NodeCells } from "../../live/types";

export interface UsageItem {
  project: string;
  seq: number;
  time: string;
  gpus: number;
  quota: number | null;
  limit: number | null;
  fair_share: number;
  borrowed: number | null;
}

export type Range = "1h" | "6h" | "24h" | "7d";
export const RANGES: readonly [Range, string][] = [
  ["1h", "1 hour"],
  ["6h", "6 hours"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
];
export const rangeOf = (text: string | undefined): Range => RANGES.find(([each]) => each === text)?.[0] ?? "6h";
const HOURS: Record<Range, number> = { "1h": 1, "6h": 6, "24h": 24, "7d": 168 };
const PAGES = 12;

/** The start of the range; `to`: the newest time of the log. */
export const rangeStart = (to: string, range: Range): string => new Date(Date.parse(to) - HOURS[range] * 3_600_000).toISOString();

/** All usage items, oldest first. project "": the whole pool. end: null: to the newest one. Throws `ApiError`. */
export async function loadUsage(pool: string, project: string, from: string, end: string | null, signal: AbortSignal): Promise<UsageItem[]> {
  const question = `usage?${new URLSearchParams({ project, from, ...(end !== null && { to: end }), order: "asc", limit: "1000" })}`;
  const found: UsageItem[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < PAGES; page += 1) {
    const answer: Page<UsageItem> = await get<Page<UsageItem>>(archivePath(pool, cursor === null ? question : `${question}&cursor=${encodeURIComponent(cursor)}`), signal);
    found.push(...answer.items);
    cursor = answer.next;
    if (cursor === null) break;
  }
  return found;
}

/** Healthy GPUs of nodes that take jobs: what fair shares are parts of. */
export const schedulableGpus = (nodes: Iterable<NodeCells>): number =>
  [...nodes].filter((node) => node.state === "ready").reduce((sum, node) => sum + healthyGpus(node), 0);

/** GPUs of a node that are neither quarantined nor unhealthy. */
export const healthyGpus = (node: NodeCells): number => node.gpus.filter(([state]) => state !== "quarantined" && state !== "unhealthy").length;

/** The pool's items and, as the newest one, its live state: the archive records usage about once a minute. */
export function withCurrent(items: readonly UsageItem[], row: { head_seq: number; gpus_allocated: number }, schedulable: number, to: string): UsageItem[] {
  const before = items.filter((item) => item.time < to);
  return [...before, { project: "", seq: row.head_seq, time: to, gpus: row.gpus_allocated, quota: null, limit: null, fair_share: schedulable, borrowed: null }];
}

/** The time axis in seconds: from the first item, or the start of the range, to the newest time of the log; at least a minute. */
export function axisOf(items: readonly UsageItem[], from: string, to: string): [number, number] {
  const end = Math.max(Date.parse(to), ...items.slice(-1).map((item) => Date.parse(item.time))) / 1000;
  const begin = Math.max(Date.parse(from), ...items.slice(0, 1).map((item) => Date.parse(item.time))) / 1000;
  return [Math.min(begin, end - 60), end];
}

/**
 * Chart columns: seconds, usage, quota, fair share (of the whole pool: the schedulable GPUs), upper edge of the borrowed area. The newest
 * item holds until `end`, seconds.
 */
export function columns(sampled: readonly UsageItem[], end: number): [number[], number[], (number | null)[], (number | null)[], (number | null)[]] {
  const last = sampled.at(-1);
  const items = last && Date.parse(last.time) / 1000 < end ? [...sampled, { ...last, time: new Date(end * 1000).toISOString() }] : sampled;
  return [
    items.map((item) => Date.parse(item.time) / 1000),
    items.map((item) => item.gpus),
    items.map((item) => item.quota),
    items.map((item) => item.fair_share),
    items.map((item) => (item.quota === null ? null : Math.max(item.gpus, item.quota))),
  ];
}

/** `Used at most 9 GPUs, and borrowed at most 6, 20 % of the time.` */
export function usageText(items: readonly UsageItem[]): string {
  const most = items.reduce((found, item) => Math.max(found, item.borrowed ?? 0), 0);
  const peak = items.reduce((found, item) => Math.max(found, item.gpus), 0);
  const above = items.filter((item) => (item.borrowed ?? 0) > 0).length;
  const used = `Used at most ${peak} ${peak === 1 ? "GPU" : "GPUs"}`;
  if (items.every((item) => item.quota === null)) return `${used}.`;
  return `${used}, and borrowed ${most > 0 ? `at most ${most}, ${Math.round((100 * above) / items.length)} % of the time` : "nothing"}.`;
}
