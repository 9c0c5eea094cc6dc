// A project's usage over time, as recorded by the archive about once a minute.
import { archivePath, get, type Page, type UsageItem } from "../../api";
import { rangeOptions } from "../../lib";
import type { Series } from "../../ui/Chart";

/** What the chart shows of a sample; the pool's newest one is made of its live state. */
export interface UsagePoint extends Pick<UsageItem, "project" | "seq" | "time"> {
  gpus: number;
  quota: number | null;
  fair_share: number;
  borrowed: number | null;
}

const pointOf = ({ project, seq, time, used, quota, fair_share, borrowed }: UsageItem): UsagePoint => ({
  project, seq, time, gpus: used.gpus ?? 0, quota: quota.gpus, fair_share: fair_share.gpus ?? 0, borrowed: borrowed.gpus,
});

export const RANGES = rangeOptions("1h", "6h", "24h", "7d");
export const rangeOf = (text: string | undefined): (typeof RANGES)[number][0] => RANGES.find(([each]) => each === text)?.[0] ?? "6h";
const PAGES = 12;

/** All usage items, oldest first. project "": the whole pool. end: null: to the newest one. Throws `ApiError`. */
export async function loadUsage(pool: string, project: string, from: string, end: string | null, signal: AbortSignal): Promise<UsagePoint[]> {
  const question = `usage?${new URLSearchParams({ project, from, ...(end !== null && { to: end }), order: "asc", limit: "1000" })}`;
  const found: UsagePoint[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < PAGES; page += 1) {
    const answer: Page<UsageItem> = await get<Page<UsageItem>>(archivePath(pool, cursor === null ? question : `${question}&cursor=${encodeURIComponent(cursor)}`), signal);
    found.push(...answer.items.map(pointOf));
    cursor = answer.next;
    if (cursor === null) break;
  }
  return found;
}

/** The pool's items and, as the newest one, its live state: the archive records usage about once a minute. */
export function withCurrent(items: readonly UsagePoint[], row: { head_seq: number; gpus_allocated: number }, schedulable: number, to: string): UsagePoint[] {
  const before = items.filter((item) => item.time < to);
  return [...before, { project: "", seq: row.head_seq, time: to, gpus: row.gpus_allocated, quota: null, fair_share: schedulable, borrowed: null }];
}

/** The lines of the chart: of a project what it uses within its quota and beyond, of the whole pool what is used and schedulable. */
export function usageLines(items: readonly UsagePoint[]): Series[] {
  const fair = items.map((item) => item.fair_share);
  if (items[0]?.project === "") return [{ name: "used", kind: "area", values: items.map((item) => item.gpus) }, { name: "schedulable", kind: "dotted", values: fair }];
  return [
    { name: "used, within the quota", kind: "stacked", values: items.map((item) => Math.min(item.gpus, item.quota ?? item.gpus)) },
    { name: "borrowed", kind: "stacked", colour: "--cat-1", values: items.map((item) => (item.quota === null ? 0 : Math.max(0, item.gpus - item.quota))) },
    { name: "quota", kind: "dashed", values: items.map((item) => item.quota) },
    { name: "fair share", kind: "dotted", values: fair },
  ];
}

/** `Used at most 9 GPUs, and borrowed at most 6, 20 % of the time.` */
export function usageText(items: readonly UsagePoint[]): string {
  const most = items.reduce((found, item) => Math.max(found, item.borrowed ?? 0), 0);
  const peak = items.reduce((found, item) => Math.max(found, item.gpus), 0);
  const above = items.filter((item) => (item.borrowed ?? 0) > 0).length;
  const used = `Used at most ${peak} ${peak === 1 ? "GPU" : "GPUs"}`;
  if (items.every((item) => item.quota === null)) return `${used}.`;
  return `${used}, and borrowed ${most > 0 ? `at most ${most}, ${Math.round((100 * above) / items.length)} % of the time` : "nothing"}.`;
}
