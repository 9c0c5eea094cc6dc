// A project's usage over time: its newest state, and before it what the archive recorded about once a minute.
import { archivePath, get, type LiveProject, type Page, type UsageItem } from "../../api";
import { rangeOptions } from "../../lib";
import type { Series } from "../../ui/Chart";

/** What the chart shows of a sample; the newest one is made of the live state. */
export interface UsagePoint extends Pick<UsageItem, "project" | "seq" | "time"> {
  gpus: number;
  quota: number | null;
  fair_share: number;
  borrowed: number | null;
}

type Amounts = Pick<UsageItem, "used" | "quota" | "fair_share" | "borrowed">;

const pointOf = (project: string, seq: number, time: string, { used, quota, fair_share, borrowed }: Amounts): UsagePoint => ({
  project, seq, time, gpus: used.gpus ?? 0, quota: quota.gpus, fair_share: fair_share.gpus ?? 0, borrowed: borrowed.gpus,
});

export const RANGES = rangeOptions("1h", "6h", "24h", "7d");
export const rangeOf = (text: string | undefined): (typeof RANGES)[number][0] => RANGES.find(([each]) => each === text)?.[0] ?? "6h";
const PAGES = 12;

/** All usage items of a project, oldest first. end: null: to the newest one. Throws `ApiError`. */
export async function loadUsage(pool: string, project: string, from: string, end: string | null, signal: AbortSignal): Promise<UsagePoint[]> {
  const question = `usage?${new URLSearchParams({ project, from, ...(end !== null && { to: end }), order: "asc", limit: "1000" })}`;
  const found: UsagePoint[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < PAGES; page += 1) {
    const answer: Page<UsageItem> = await get<Page<UsageItem>>(archivePath(pool, cursor === null ? question : `${question}&cursor=${encodeURIComponent(cursor)}`), signal);
    found.push(...answer.items.map((item) => pointOf(item.project, item.seq, item.time, item)));
    cursor = answer.next;
    if (cursor === null) break;
  }
  return found;
}

/** The items and, as the newest one, the live state: a pool that decides nothing has no samples. */
export function withCurrent(items: readonly UsagePoint[], row: LiveProject, seq: number, to: string): UsagePoint[] {
  return [...items.filter((item) => item.time < to), pointOf(row.project, seq, to, row)];
}

/** The lines of the chart: what the project uses within its quota and beyond. */
export function usageLines(items: readonly UsagePoint[]): Series[] {
  return [
    { name: "used, within the quota", kind: "stacked", values: items.map((item) => Math.min(item.gpus, item.quota ?? item.gpus)) },
    { name: "borrowed", kind: "stacked", colour: "--cat-1", values: items.map((item) => (item.quota === null ? 0 : Math.max(0, item.gpus - item.quota))) },
    { name: "quota", kind: "dashed", values: items.map((item) => item.quota) },
    { name: "fair share", kind: "dotted", values: items.map((item) => item.fair_share) },
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
