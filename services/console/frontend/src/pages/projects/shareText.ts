// Shares, borrowing and evictions of projects as text.
import { bytes, count, gpus, gpuTime, times } from "../../lib/format";
import type { ResourceAmounts, LiveProject } from "../../live/types";
import type { Tone } from "../../ui/Badge";

export type Resource = keyof ResourceAmounts;
export const RESOURCES: readonly [Resource, string][] = [
  ["gpu_milli", "GPUs"],
  ["cpu_milli", "CPU"],
  ["memory_bytes", "Memory"],
];

export const nameOf = (row: LiveProject): string => row.project || "no project";

/** `12`, `1.5 TiB`; null: unlimited. */
export const amount = (value: number | null, resource: Resource): string =>
  value === null ? "unlimited" : resource === "memory_bytes" ? bytes(value) : Number(gpus(value)).toLocaleString("en");

/** With its unit: `12 GPUs`, `96 CPU`, `1.5 TiB`. */
export function measured(value: number, resource: Resource): string {
  if (resource === "memory_bytes") return bytes(value);
  if (resource === "cpu_milli") return `${amount(value, resource)} CPU`;
  return value === 1000 ? "1 GPU" : `${amount(value, resource)} GPUs`;
}

export interface ShareStatusText {
  tone: Tone;
  /** Short label. */
  word: (typeof STATUSES)[number];
  text: string;
}

/** All statuses. */
export const STATUSES = ["below fair share", "borrowing", "at fair share", "within quota", "idle"] as const;

/** Whether a project has its fair share of GPUs. */
export function shareStatus(row: LiveProject): ShareStatusText {
  const used = row.used.gpu_milli ?? 0;
  const quota = row.quota.gpu_milli;
  const fair = row.fair_share.gpu_milli;
  const pending = row.jobs_pending;
  const belowShare = fair === null ? 0 : fair - used;
  const aboveQuota = quota === null ? 0 : used - quota;
  const pendingText = `${count(pending, "job")} ${pending === 1 ? "is" : "are"} pending`;
  if (aboveQuota > 0) {
    const beyond = fair === null ? 0 : used - fair;
    const above = beyond > 0 ? `, ${measured(Math.min(beyond, aboveQuota), "gpu_milli")} of them above its fair share: others may reclaim them` : ", within its fair share";
    return { tone: "warn", word: "borrowing", text: `Borrows ${measured(aboveQuota, "gpu_milli")} above its quota${above}.${pending ? ` ${pendingText}.` : ""}` };
  }
  if (pending && belowShare > 0) {
    return { tone: "bad", word: "below fair share", text: `${measured(belowShare, "gpu_milli")} below its fair share while ${pendingText}.` };
  }
  if (pending) return { tone: "plain", word: "at fair share", text: `Has its fair share; ${pendingText}.` };
  if (used === 0) return { tone: "plain", word: "idle", text: "Uses no GPUs; no jobs pending." };
  return { tone: "good", word: "within quota", text: `Within its quota${quota === null ? "" : ` of ${measured(quota, "gpu_milli")}`}; no jobs pending.` };
}

/** The usage figures of one resource, as shown by the bar. */
export function barText(row: LiveProject, resource: Resource): string {
  const used = row.used[resource] ?? 0;
  const quota = row.quota[resource];
  const fair = row.fair_share[resource];
  const limit = row.limit[resource];
  const parts = [
    `${nameOf(row)} uses ${measured(used, resource)}`,
    quota === null ? "it has no quota" : `its quota is ${measured(quota, resource)}`,
    ...(fair === null ? [] : [`its fair share ${measured(fair, resource)}`]),
    ...(limit === null ? [] : [`its limit ${measured(limit, resource)}`]),
  ];
  return `${parts.join(", ")}.`;
}

/** The most relevant projects: below fair share, borrowing, with pending jobs. In tree order. */
export function mostRelevant(rows: readonly LiveProject[], most: number): LiveProject[] {
  if (rows.length <= most) return [...rows];
  const rank = (row: LiveProject): number => {
    const { tone } = shareStatus(row);
    return tone === "bad" ? 0 : tone === "warn" ? 1 : row.jobs_pending ? 2 : row.jobs_running ? 3 : 4;
  };
  const chosen = new Set([...rows].sort((a, b) => rank(a) - rank(b)).slice(0, most));
  return rows.filter((row) => chosen.has(row));
}

/** The scale of the bars: the largest value. */
export function scaleOf(rows: readonly LiveProject[], resource: Resource): number {
  const values = rows.flatMap((row) => [row.used[resource], row.quota[resource], row.fair_share[resource]]);
  return Math.max(1, ...values.map((value) => value ?? 0));
}

/** A project's borrowed GPUs and the possible lenders. unassigned: of the parent's quota, not assigned to any child. */
export interface Borrowing {
  borrower: LiveProject;
  milli: number;
  lenders: { project: LiveProject; milli: number }[];
  unassigned: number;
}

/**
 * Each project above its quota, with the siblings that have unused quota, largest borrower first. Borrowed GPUs cannot be
 * attributed to single lenders. total: thousandths of the pool's GPUs.
 */
export function borrowings(rows: ReadonlyMap<string, LiveProject>, total: number): Borrowing[] {
  const found: Borrowing[] = [];
  for (const borrower of rows.values()) {
    const milli = borrower.borrowed.gpu_milli ?? 0;
    if (milli <= 0) continue;
    const siblings = [...rows.values()].filter((row) => row.parent === borrower.parent && row.depth === borrower.depth);
    const lenders = siblings
      .map((project) => ({ project, milli: Math.max(0, (project.quota.gpu_milli ?? 0) - (project.used.gpu_milli ?? 0)) }))
      .filter((each) => each.milli > 0)
      .sort((a, b) => b.milli - a.milli || (a.project.project < b.project.project ? -1 : 1));
    const above = borrower.parent === null ? total : (rows.get(borrower.parent)?.quota.gpu_milli ?? 0);
    const assigned = siblings.reduce((sum, row) => sum + (row.quota.gpu_milli ?? 0), 0);
    found.push({ borrower, milli, lenders, unassigned: Math.max(0, above - assigned) });
  }
  return found.sort((a, b) => b.milli - a.milli);
}

const NAMED = 3;

/** `research borrows 4 GPUs: …` without the name. */
export const borrowingText = (each: Borrowing): string => `borrows ${measured(each.milli, "gpu_milli")}: ${lendersText(each)}.`;

/** `inference has 8 GPUs of its quota unused, 2 GPUs are not assigned to any quota`: where borrowed resources come from. */
export function lendersText({ lenders, unassigned, borrower }: Borrowing): string {
  const parts = lenders.slice(0, NAMED).map((each, at) => `${nameOf(each.project)} has ${measured(each.milli, "gpu_milli")}${at === 0 ? " of its quota unused" : ""}`);
  if (lenders.length > NAMED) {
    const rest = lenders.slice(NAMED).reduce((sum, each) => sum + each.milli, 0);
    parts.push(`${count(lenders.length - NAMED, "other project")} ${measured(rest, "gpu_milli")}`);
  }
  if (unassigned > 0) parts.push(`${measured(unassigned, "gpu_milli")} ${unassigned === 1000 ? "is" : "are"} not assigned to any quota`);
  if (parts.length) return parts.join(", ");
  return borrower.parent === null ? "all quotas are in use" : `${borrower.parent} as a whole is above its quota`;
}

/** `Its jobs were preempted 7 times and preempted others once. Evictions cost it 12.5 GPU-h of work.` */
export function evictionsText(row: LiveProject): string {
  const suffered = row.evictions_suffered;
  const caused = row.evictions_caused;
  const suffering = suffered ? `Its jobs were preempted ${times(suffered)}` : "Its jobs were not preempted";
  const cost = row.gpu_hours_lost > 0 ? ` Evictions cost it ${lost(row.gpu_hours_lost)} of work.` : "";
  return `${suffering} and ${caused ? `preempted others ${times(caused)}` : "preempted no others"}.${cost}`;
}

/** GPU-hours in a readable unit. */
export const lost = (gpuHours: number): string => (gpuHours > 0 ? gpuTime(gpuHours * 3_600_000) : "none");
