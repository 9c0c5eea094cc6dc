// Evictions in progress, grouped by preemptor.
import { count, few } from "../../lib/format";
import type { LiveJob } from "../../live/types";

/** preemptor null: evicted because of `cause`. deadline: end of the last grace period. */
export interface PreemptionGroup {
  key: string;
  preemptor: LiveJob | null;
  name: string | null;
  cause: string;
  evicting: LiveJob[];
  gpus: number;
  deadline: string | null;
  seq: number;
}

/** Evictions by preemptor, oldest decision first; then reserved jobs without evictions in progress. */
export function preemptionGroups(jobs: ReadonlyMap<string, LiveJob>): PreemptionGroup[] {
  const found = new Map<string, PreemptionGroup>();
  for (const job of jobs.values()) {
    const eviction = job.eviction;
    if (eviction === null) continue;
    const key = eviction.for_job === null ? `#${eviction.cause}` : `@${eviction.for_job}`;
    const group = found.get(key) ?? empty(key, eviction.for_job, eviction.cause, jobs, eviction.decided_seq);
    group.evicting.push(job);
    group.gpus += job.gpus;
    group.seq = Math.min(group.seq, eviction.decided_seq);
    if (eviction.deadline !== null && (group.deadline === null || eviction.deadline > group.deadline)) group.deadline = eviction.deadline;
    found.set(key, group);
  }
  for (const job of jobs.values()) {
    const key = `@${job.job}`;
    if (job.state === "reserved" && !found.has(key)) found.set(key, { ...empty(key, job.job, "", jobs, Number.MAX_SAFE_INTEGER) });
  }
  for (const group of found.values()) group.evicting.sort((a, b) => (a.job < b.job ? -1 : 1));
  return [...found.values()].sort((a, b) => a.seq - b.seq || (a.key < b.key ? -1 : 1));
}

const empty = (key: string, name: string | null, cause: string, jobs: ReadonlyMap<string, LiveJob>, seq: number): PreemptionGroup => ({
  key,
  preemptor: name === null ? null : (jobs.get(name) ?? null),
  name,
  cause,
  evicting: [],
  gpus: 0,
  deadline: null,
  seq,
});

const CAUSE_TEXTS: Record<string, string> = {
  preemption: "preemption",
  cancelled: "cancelled",
  "gang-failure": "a task of the gang failed",
  "stale-gang": "the gang is incomplete",
  scaled: "scaled down",
  policy: "not admitted by the policy",
  "time-limit": "run time limit",
  device: "GPU failure",
  "over-share": "over its GPU share",
  paused: "paused",
  requested: "requested by a user",
  drain: "node drain",
  migration: "migration",
  resize: "resize",
};

/** The cause of an eviction without a preemptor. */
export const causeText = (cause: string): string => CAUSE_TEXTS[cause] ?? cause;

const STAGE_TEXTS: Record<string, string> = {
  decided: "eviction decided",
  started: "eviction started",
  noticed: "notice delivered",
  acknowledged: "acknowledged, finishing its step",
  step_confirmed: "step confirmed",
  step_agreed: "checkpoint step agreed",
  checkpoint_started: "checkpointing",
  saving_in_flight: "checkpointing",
  checkpoint_committed: "checkpoint saved",
  yielding: "yielding",
  term_sent: "TERM sent",
  kill_sent: "KILL sent",
  exited: "exited; GPUs being verified as free",
  released: "released",
};

/** The stage of an eviction: `checkpointing`. */
export const stageText = (stage: string): string => STAGE_TEXTS[stage] ?? stage.replaceAll("_", " ");

/** `Preempting 2 jobs with 8 GPUs.` */
export function preemptionText(group: PreemptionGroup): string {
  const victims = `${count(group.evicting.length, "job")} with ${count(group.gpus, "GPU")}`;
  if (group.name === null) return `Evicting ${victims}: ${causeText(group.cause)}.`;
  if (group.evicting.length === 0) {
    const nodes = group.preemptor?.reserved_nodes ?? [];
    return `Resources reserved${nodes.length ? ` on ${few(nodes)}` : ""}; it starts when they are released.`;
  }
  return `Preempting ${victims}.`;
}
