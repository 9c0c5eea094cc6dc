// Why a job was evicted: the preemptor, the rule, the work lost, and when it runs again.
import type { Eviction, Explanation, QueuedJob } from "../../api";
import { duration, evictionCauseText, few, gpuTime, ruleText } from "../../lib";

export interface Reason {
  /** The preemptor; null: none. */
  forJob: string | null;
  preemptorText: string;
  rule: string;
  workLost: string;
  /** null: not known, or no part of the loss. */
  restartCost: string | null;
  restart: string;
  hasRestarted: boolean;
}

/** Less than this is shown as 0 GPU-s. */
export const NOTHING_MS = 500;

/** last: this is the job's newest eviction, so that the live row has its restart estimate. */
export function evictionReason(eviction: Eviction, live: QueuedJob | null, ended: string | null, last: boolean): Reason {
  const current = last && live?.eviction?.decided_seq === eviction.decided_seq ? live.eviction.for_job : null; // the reservation may have passed to another job
  const rank = eviction.for_class ? `${eviction.for_class} ${eviction.for_priority ?? ""}`.trim() : "";
  return {
    forJob: eviction.for_job,
    preemptorText: eviction.for_job ? [rank, current && current !== eviction.for_job ? `the resources are now reserved for ${current}` : ""].filter(Boolean).join("; ") : `No preemptor: ${evictionCauseText(eviction.cause ?? "")}.`,
    rule: ruleSentence(eviction, rank, live),
    ...lossTexts(eviction),
    ...restartText(eviction, live, ended, last),
  };
}

function ruleSentence(eviction: Eviction, rank: string, live: QueuedJob | null): string {
  const taken = eviction.explanation?.cost?.classes ?? [];
  const priority = taken.length === 1 ? taken[0]!.priority : live?.priority_class === eviction.priority_class ? live?.priority : undefined;
  const own = `${eviction.priority_class ?? "its class"} ${priority ?? ""}`.trim();
  if (eviction.action === "reclaim") return `Reclaim: ${eviction.project ? `project ${eviction.project}` : "its project"} used more than its share, and the project of ${eviction.for_job ?? "the preemptor"} is entitled to the resources.`;
  if (eviction.action === "consolidate") return "Consolidate: migrating it makes free resources contiguous; resources are reserved for every migrated job.";
  if (eviction.cause === "preemption") return `${rank || "The preemptor"} has priority over ${own} (rule lower-priority-only).`;
  return eviction.reason ? eviction.reason : `Because ${evictionCauseText(eviction.cause ?? "")}.`;
}

/** What the eviction cost, in two figures: the work since the last checkpoint or the start, and what the restart costs. */
function lossTexts(eviction: Eviction): { workLost: string; restartCost: string | null } {
  const { work_lost_gpu_ms: work, restart_gpu_ms: restart } = eviction;
  if (work === null) return { workLost: eviction.stages.released || eviction.outcome ? "Not recorded." : "Unknown until the eviction completes.", restartCost: null };
  return { workLost: work < NOTHING_MS ? "None." : `${gpuTime(work)} since its last checkpoint, or its start.`, restartCost: (restart ?? 0) < NOTHING_MS ? null : `${gpuTime(restart ?? 0)}, as the policy assumes or as measured.` };
}

function restartText(eviction: Eviction, live: QueuedJob | null, ended: string | null, last: boolean): { restart: string; hasRestarted: boolean } {
  const result = (restart: string, hasRestarted = true) => ({ restart, hasRestarted });
  if (eviction.outcome === "eviction-cancelled") return result("It kept running: the eviction was cancelled.");
  if (eviction.stages.resumed && eviction.until_resumed_s !== null) return result(`It resumed ${duration(eviction.until_resumed_s)} after the decision.`);
  if (eviction.tasks) return result("The job kept running; only some of its tasks were evicted.");
  if (ended) return result(`Never: it ${ended === "cancelled" ? "was cancelled" : `ended (${ended})`}.`, false);
  if (!last || !live) return result("Unknown.", false);
  if (live.restart_estimate) return result(live.restart_estimate, false);
  if (live.state === "running") return result("It is running again.");
  if (live.state === "starting" || live.state === "reserved") return result("Resources are reserved for it; it starts soon.", false);
  if (live.state === "paused") return result("It is paused; it restarts after it is resumed.", false);
  if (live.eviction) return result("The eviction is in progress; then it returns to its previous position in the queue.", false);
  if (live.jobs_ahead !== null) return result(live.jobs_ahead === 0 ? "It is first in the queue." : `It is in the queue, with ${live.jobs_ahead === 1 ? "one job" : `${live.jobs_ahead} jobs`} ahead of it.`, false);
  return result("It is in the queue, at its previous position.", false);
}

/** Alternatives to this eviction, as sentences. */
export function alternatives(why: Explanation | null): string[] {
  if (!why) return [];
  const sentences: string[] = [];
  if (why.proven) sentences.push("Victim selection claims to have proven: no permitted set of victims costs less.");
  else if (why.steps) sentences.push(`Not proven: the lowest cost found in ${why.steps.toLocaleString("en")} search steps.`);
  if (why.runner_up?.length) {
    const loses = why.runner_up_cost?.lost_gpu_ms ?? why.runner_up_lost_gpu_ms ?? 0;
    sentences.push(`Runner-up: ${few(why.runner_up)}, with ${gpuTime(loses)} of work lost and restarts.`);
  }
  if (why.candidates) sentences.push(`${why.candidates === 1 ? "One job was an eligible victim" : `${why.candidates} jobs were eligible victims`}.`);
  for (const group of why.excluded ?? []) {
    const names = group.examples?.length ? ` (${few(group.examples, 3, group.jobs)})` : "";
    sentences.push(`Rule ${group.rule} protected ${group.jobs === 1 ? "one job" : `${group.jobs} jobs`}${names}: ${group.jobs === 1 ? "it" : "each"} ${ruleText(group.rule)}.`);
  }
  return sentences;
}

/** The live eviction in the archive's format, until the archive has it. */
export function liveEviction(live: QueuedJob): Eviction | null {
  const current = live.eviction;
  if (!current) return null;
  return {
    decided_seq: current.decided_seq, decided_at: current.started_at ?? "", job: live.job, submitted_seq: null, attempt: live.attempt, tasks: null,
    project: live.project, user: live.user, user_verified: live.user_verified, priority_class: live.priority_class, cause: current.for_job ? "preemption" : current.cause, action: null, for_job: current.for_job,
    for_class: null, for_priority: null, reason: null, gpus: live.gpus, work_lost_gpu_ms: null, restart_gpu_ms: null, explanation: null,
    stages: {}, until_released_s: null, until_resumed_s: null, outcome: null,
  };
}
