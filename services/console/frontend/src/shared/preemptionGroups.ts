// Evictions in progress, grouped by preemptor.
import type { LiveJob } from "../api";
import { count, evictionCauseText, few } from "../lib";

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
    group.gpus += Number(job.placed_gpus_text) || job.gpus;
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

/** `Preempting 2 jobs with 8 GPUs.` */
export function preemptionText(group: PreemptionGroup): string {
  const victims = `${count(group.evicting.length, "job")} with ${count(group.gpus, "GPU")}`;
  if (group.name === null) return `Evicting ${victims}, because ${evictionCauseText(group.cause)}.`;
  if (group.evicting.length === 0) {
    const nodes = group.preemptor?.reserved_nodes ?? [];
    return `Resources reserved${nodes.length ? ` on ${few(nodes)}` : ""}; it starts when they are released.`;
  }
  return `Preempting ${victims}.`;
}
