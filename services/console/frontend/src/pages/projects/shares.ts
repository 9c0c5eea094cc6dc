// Who gets its share, and who uses what others leave: projects' figures as sentences.
import { gpuTime } from "../../lib/terms";
import { bytes, count, gpus, times } from "../../lib/words";
import type { Amounts, LiveProject } from "../../live/shapes";
import type { Tone } from "../../ui/Badge";

export type Resource = keyof Amounts;
export const RESOURCES: readonly [Resource, string][] = [
  ["gpu_milli", "GPUs"],
  ["cpu_milli", "CPU"],
  ["memory_bytes", "Memory"],
];

export const nameOf = (row: LiveProject): string => row.project || "no project";

/** `12`, `1.5 TiB`; null: no bound. */
export const amount = (value: number | null, resource: Resource): string =>
  value === null ? "no bound" : resource === "memory_bytes" ? bytes(value) : Number(gpus(value)).toLocaleString("en");

/** With its unit: `12 GPUs`, `96 CPU`, `1.5 TiB`. */
export function measured(value: number, resource: Resource): string {
  if (resource === "memory_bytes") return bytes(value);
  if (resource === "cpu_milli") return `${amount(value, resource)} CPU`;
  return value === 1000 ? "1 GPU" : `${amount(value, resource)} GPUs`;
}

export interface Verdict {
  tone: Tone;
  /** A word or two. */
  word: (typeof WORDS)[number];
  text: string;
}

/** The words of all verdicts. */
export const WORDS = ["below its share", "borrows", "has its share", "nothing waits", "idle"] as const;

/** Whether a project gets its share of GPUs, as a person would ask. */
export function verdict(row: LiveProject): Verdict {
  const used = row.used.gpu_milli ?? 0;
  const quota = row.quota.gpu_milli;
  const fair = row.fair_share.gpu_milli;
  const waits = row.jobs_pending;
  const short = fair === null ? 0 : fair - used;
  const over = quota === null ? 0 : used - quota;
  const waiting = `${count(waits, "job")} ${waits === 1 ? "waits" : "wait"}`;
  if (over > 0) {
    const beyond = fair === null ? 0 : used - fair;
    const above = beyond > 0 ? `, ${measured(Math.min(beyond, over), "gpu_milli")} of them above its fair share: others may reclaim those` : ", within its fair share";
    return { tone: "warn", word: "borrows", text: `Borrows ${measured(over, "gpu_milli")} above its quota${above}.${waits ? ` ${waiting}.` : ""}` };
  }
  if (waits && short > 0) {
    return { tone: "bad", word: "below its share", text: `${measured(short, "gpu_milli")} short of its fair share while ${waiting}.` };
  }
  if (waits) return { tone: "plain", word: "has its share", text: `Has its fair share; ${waiting} for more.` };
  if (used === 0) return { tone: "plain", word: "idle", text: "Uses no GPU, and nothing waits." };
  return { tone: "good", word: "nothing waits", text: `Within its quota${quota === null ? "" : ` of ${measured(quota, "gpu_milli")}`}, and nothing waits.` };
}

/** All figures of a project's use of one resource, as the bar shows them. */
export function barText(row: LiveProject, resource: Resource): string {
  const used = row.used[resource] ?? 0;
  const quota = row.quota[resource];
  const fair = row.fair_share[resource];
  const limit = row.limit[resource];
  const parts = [
    `${nameOf(row)} uses ${measured(used, resource)}`,
    quota === null ? "no quota bounds it" : `its quota is ${measured(quota, resource)}`,
    ...(fair === null ? [] : [`its fair share ${measured(fair, resource)}`]),
    ...(limit === null ? [] : [`its limit ${measured(limit, resource)}`]),
  ];
  return `${parts.join(", ")}.`;
}

/** Those to look at first, where there are too many for all: who is short of its share, who borrows, who waits. In the tree's order. */
export function foremost(rows: readonly LiveProject[], most: number): LiveProject[] {
  if (rows.length <= most) return [...rows];
  const rank = (row: LiveProject): number => {
    const { tone } = verdict(row);
    return tone === "bad" ? 0 : tone === "warn" ? 1 : row.jobs_pending ? 2 : row.jobs_running ? 3 : 4;
  };
  const chosen = new Set([...rows].sort((a, b) => rank(a) - rank(b)).slice(0, most));
  return rows.filter((row) => chosen.has(row));
}

/** The longest bar among projects that are compared. */
export function scaleOf(rows: readonly LiveProject[], resource: Resource): number {
  const values = rows.flatMap((row) => [row.used[resource], row.quota[resource], row.fair_share[resource]]);
  return Math.max(1, ...values.map((value) => value ?? 0));
}

/** Whom a project's borrowed GPUs would belong to. own: what lies below the parent's quota and in nobody's quota. */
export interface Borrowing {
  borrower: LiveProject;
  milli: number;
  lenders: { project: LiveProject; milli: number }[];
  nobody: number;
}

/**
 * Each project above its quota, with the siblings that leave some of theirs unused. GPUs have no name tags: several lenders
 * and several borrowers of one level are told together. Who borrows most is first. total: thousandths of the pool's GPUs.
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
    const given = siblings.reduce((sum, row) => sum + (row.quota.gpu_milli ?? 0), 0);
    found.push({ borrower, milli, lenders, nobody: Math.max(0, above - given) });
  }
  return found.sort((a, b) => b.milli - a.milli);
}

const NAMED = 3;

/** `research borrows 4 GPUs: …` without the name. */
export const borrowingText = (each: Borrowing): string => `borrows ${measured(each.milli, "gpu_milli")}: ${roomText(each)}.`;

/** `inference leaves 8 GPUs of its quota unused, 2 GPUs are in nobody's quota`: why there is room to borrow. */
export function roomText({ lenders, nobody, borrower }: Borrowing): string {
  const parts = lenders.slice(0, NAMED).map((each, at) => `${nameOf(each.project)} leaves ${measured(each.milli, "gpu_milli")}${at === 0 ? " of its quota unused" : ""}`);
  if (lenders.length > NAMED) {
    const rest = lenders.slice(NAMED).reduce((sum, each) => sum + each.milli, 0);
    parts.push(`${count(lenders.length - NAMED, "other project")} ${measured(rest, "gpu_milli")}`);
  }
  if (nobody > 0) parts.push(`${measured(nobody, "gpu_milli")} ${nobody === 1000 ? "is" : "are"} in nobody's quota`);
  if (parts.length) return parts.join(", ");
  return borrower.parent === null ? "all quotas are in use" : `${borrower.parent} as a whole is above its quota`;
}

/** `Its jobs were preempted 7 times; others were preempted for them once. Evictions cost it 12.5 GPU-h of work.` */
export function evictionsText(row: LiveProject): string {
  const suffered = row.evictions_suffered;
  const caused = row.evictions_caused;
  const left = suffered ? `Its jobs were preempted ${times(suffered)}` : "None of its jobs was preempted";
  const cost = row.gpu_hours_lost > 0 ? ` Evictions cost it ${lost(row.gpu_hours_lost)} of work.` : "";
  return `${left}; ${caused ? `others were preempted for them ${times(caused)}` : "nobody was preempted for them"}.${cost}`;
}

/** GPU-hours in the unit that people would choose. */
export const lost = (gpuHours: number): string => (gpuHours > 0 ? gpuTime(gpuHours * 3_600_000) : "nothing");
