// Shares, borrowing and evictions of projects as text.
import type { Amounts, LiveProject } from "../api";
import { bytes, count, gpus, lostText, times } from "../lib";
import type { Tone } from "../ui";

export type Resource = keyof Amounts;
export const RESOURCES: readonly [Resource, string][] = [
  ["gpus", "GPUs"],
  ["cpu_milli", "CPU"],
  ["memory_bytes", "Memory"],
];

export const nameOf = (row: LiveProject): string => row.project || "no project";

/** `12`, `1.5 TiB`; null: unlimited. */
export const amount = (value: number | null, resource: Resource): string =>
  value === null ? "unlimited" : resource === "memory_bytes" ? bytes(value) : Number(gpus(resource === "gpus" ? value * 1000 : value)).toLocaleString("en");

const isOne = (gpuCount: number): boolean => Math.round(gpuCount * 1000) === 1000;

/** With its unit: `12 GPUs`, `96 CPU`, `1.5 TiB`. */
export function measured(value: number, resource: Resource): string {
  if (resource === "memory_bytes") return bytes(value);
  if (resource === "cpu_milli") return `${amount(value, resource)} CPU`;
  return isOne(value) ? "1 GPU" : `${amount(value, resource)} GPUs`;
}

interface ShareStatusText {
  tone: Tone;
  /** Short label. */
  word: (typeof STATUSES)[number];
  text: string;
}

/** All statuses. */
export const STATUSES = ["below fair share", "borrowing", "above quota in force", "at fair share", "within quota", "idle"] as const;

/** Whether a project has its fair share of GPUs. */
export function shareStatus(row: LiveProject): ShareStatusText {
  const used = row.used.gpus ?? 0;
  const quota = row.quota_in_force.gpus;
  const fair = row.fair_share.gpus;
  const pending = row.jobs_pending;
  const belowShare = fair === null ? 0 : fair - used;
  const aboveQuota = row.borrowed.gpus ?? 0;
  const aboveInForce = quota === null ? 0 : used - quota;
  const pendingText = `${count(pending, "job")} ${pending === 1 ? "is" : "are"} pending`;
  if (aboveQuota > 0) {
    const beyond = fair === null ? 0 : used - fair;
    const above = beyond > 0 ? `, ${measured(Math.min(beyond, aboveQuota), "gpus")} of them above its fair share: others may reclaim them` : ", within its fair share";
    return { tone: "warn", word: "borrowing", text: `Borrows ${measured(aboveQuota, "gpus")} above its quota${above}.${pending ? ` ${pendingText}.` : ""}` };
  }
  if (aboveInForce > 0) return { tone: "warn", word: "above quota in force", text: `Uses ${measured(aboveInForce, "gpus")} more than the ${measured(quota ?? 0, "gpus")} of its quota in force: others may reclaim what is above.${pending ? ` ${pendingText}.` : ""}` };
  if (pending && belowShare > 0) {
    return { tone: "bad", word: "below fair share", text: `${measured(belowShare, "gpus")} below its fair share while ${pendingText}.` };
  }
  if (pending) return { tone: "plain", word: "at fair share", text: `Has its fair share; ${pendingText}.` };
  if (used === 0) return { tone: "plain", word: "idle", text: "Uses no GPUs; no jobs pending." };
  return { tone: "good", word: "within quota", text: `Within its quota${quota === null ? "" : ` of ${measured(quota, "gpus")}`}; no jobs pending.` };
}

/** The quota, and what of it is in force where the quotas asked for exceed what there is. */
export function quotaText(row: LiveProject, resource: Resource): string {
  const quota = amount(row.quota[resource], resource);
  const inForce = amount(row.quota_in_force[resource], resource);
  return inForce === quota ? quota : `${quota} (${inForce} in force)`;
}

/** The quota of one kind of GPU, and what of it is in force. */
export function kindQuotaText({ quota, quota_in_force }: LiveProject["kinds"][number]): string {
  const stated = amount(quota, "gpus");
  const inForce = amount(quota_in_force, "gpus");
  return inForce === stated ? stated : `${stated} (${inForce} in force)`;
}

/** The usage figures of one resource, as shown by the bar. */
export function barText(row: LiveProject, resource: Resource): string {
  const used = row.used[resource] ?? 0;
  const quota = row.quota[resource];
  const inForce = row.quota_in_force[resource];
  const fair = row.fair_share[resource];
  const limit = row.limit[resource];
  const parts = [
    `${nameOf(row)} uses ${measured(used, resource)}`,
    quota === null ? "it has no quota" : `its quota is ${measured(quota, resource)}`,
    ...(inForce === null || inForce === quota ? [] : [`of which ${measured(inForce, resource)} in force`]),
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
  many: number;
  lenders: { project: LiveProject; many: number }[];
  unassigned: number;
}

/**
 * Each project above its quota, with the siblings that have unused quota, largest borrower first. Borrowed GPUs cannot be
 * attributed to single lenders. total: the pool's GPUs.
 */
export function borrowings(rows: ReadonlyMap<string, LiveProject>, total: number): Borrowing[] {
  const found: Borrowing[] = [];
  for (const borrower of rows.values()) {
    const many = borrower.borrowed.gpus ?? 0;
    if (many <= 0) continue;
    const siblings = [...rows.values()].filter((row) => row.parent === borrower.parent && row.depth === borrower.depth);
    const lenders = siblings
      .map((project) => ({ project, many: Math.max(0, (project.quota.gpus ?? 0) - (project.used.gpus ?? 0)) }))
      .filter((each) => each.many > 0)
      .sort((a, b) => b.many - a.many || (a.project.project < b.project.project ? -1 : 1));
    const above = borrower.parent === null ? total : (rows.get(borrower.parent)?.quota.gpus ?? 0);
    const assigned = siblings.reduce((sum, row) => sum + (row.quota.gpus ?? 0), 0);
    found.push({ borrower, many, lenders, unassigned: Math.max(0, above - assigned) });
  }
  return found.sort((a, b) => b.many - a.many);
}

const NAMED = 3;

/** `research borrows 4 GPUs: …` without the name. */
export const borrowingText = (each: Borrowing): string => `borrows ${measured(each.many, "gpus")}: ${lendersText(each)}.`;

/** `inference has 8 GPUs of its quota unused, 2 GPUs are not assigned to any quota`: where borrowed resources come from. */
export function lendersText({ lenders, unassigned, borrower }: Borrowing): string {
  const parts = lenders.slice(0, NAMED).map((each, at) => `${nameOf(each.project)} has ${measured(each.many, "gpus")}${at === 0 ? " of its quota unused" : ""}`);
  if (lenders.length > NAMED) {
    const rest = lenders.slice(NAMED).reduce((sum, each) => sum + each.many, 0);
    parts.push(`${count(lenders.length - NAMED, "other project")} ${measured(rest, "gpus")}`);
  }
  if (unassigned > 0) parts.push(`${measured(unassigned, "gpus")} ${isOne(unassigned) ? "is" : "are"} not assigned to any quota`);
  if (parts.length) return parts.join(", ");
  return borrower.parent === null ? "all quotas are in use" : `${borrower.parent} as a whole is above its quota`;
}

/** `Its jobs were preempted 7 times and preempted others once since the log began. Preemptions cost it 12.5 GPU-h of work.` */
export function evictionsText(row: LiveProject): string {
  const suffered = row.evictions_suffered;
  const caused = row.evictions_caused;
  const suffering = suffered ? `Its jobs were preempted ${times(suffered)}` : "Its jobs were not preempted";
  const cost = row.gpu_hours_lost > 0 ? ` Preemptions cost it ${lostText(row.gpu_hours_lost)} of work.` : "";
  return `${suffering} and ${caused ? `preempted others ${times(caused)}` : "preempted no others"} since the log began.${cost}`;
}


/** The project and its descendants. */
export function projectSubtree(projects: ReadonlyMap<string, LiveProject>, project: string): Set<string> {
  const found = new Set([project]);
  for (let before = 0; before !== found.size; ) {
    before = found.size;
    for (const row of projects.values()) if (row.parent !== null && found.has(row.parent)) found.add(row.project);
  }
  return found;
}
