// Why a job was evicted: the preemptor, the rule, the work lost, and when it runs again.
import { count, duration, few, gpuTime } from "../../lib/format";
import { evictionCauseText, ruleText } from "../../lib/decisionText";
import type { LiveJob } from "../../live/types";
import type { Eviction, Explanation } from "./types";

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

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Less than this is shown as 0 GPU-s. */
export const NOTHING_MS = 500;

/** `preemption.restart_cost` of a policy in YAML, ms; null: it has none. */
export function restartCostOf(yaml: string): number | null {
  const text = /^\s*restart_cost: ['"]?((?:\d+(?:ms|s|m|h|d))+)['"]?\s*$/m.exec(yaml)?.[1];
  if (text === undefined) return null;
  return [...text.matchAll(/(\d+)(ms|s|m|h|d)/g)].reduce((sum, [, amount, unit]) => sum + Number(amount) * UNITS[unit!]!, 0);
}

/** last: this is the job's newest eviction, so that the live row has its restart estimate. */
export function evictionReason(eviction: Eviction, live: LiveJob | null, ended: string | null, last: boolean, restartCostMs: number | null = null): Reason {
  const current = last && live?.eviction?.decided_seq === eviction.decided_seq ? live.eviction.for_job : null; // the reservation may have passed to another job
  const rank = eviction.for_class ? `${eviction.for_class} ${eviction.for_priority ?? ""}`.trim() : "";
  return {
    forJob: eviction.for_job,
    preemptorText: eviction.for_job ? [rank, current && current !== eviction.for_job ? `the resources are now reserved for ${current}` : ""].filter(Boolean).join("; ") : `No preemptor: ${evictionCauseText(eviction.cause ?? "")}.`,
    rule: ruleSentence(eviction, rank, live),
    ...lossTexts(eviction, restartCostMs),
    ...restartText(eviction, live, ended, last),
  };
}

function ruleSentence(eviction: Eviction, rank: string, live: LiveJob | null): string {
  const taken = eviction.cost?.classes ?? [];
  const priority = taken.length === 1 ? taken[0]!.priority : live?.priority_class === eviction.priority_class ? live?.priority : undefined;
  const own = `${eviction.priority_class ?? "its class"} ${priority ?? ""}`.trim();
  if (eviction.action === "reclaim") return `Reclaim: ${eviction.project ? `project ${eviction.project}` : "its project"} used more than its share, and the project of ${eviction.for_job ?? "the preemptor"} is entitled to the resources.`;
  if (eviction.action === "consolidate") return "Consolidate: migrating it makes free resources contiguous; resources are reserved for every migrated job.";
  if (eviction.cause === "preemption") return `${rank || "The preemptor"} has priority over ${own} (rule lower-priority-only).`;
  return eviction.reason ? eviction.reason : `Because ${evictionCauseText(eviction.cause ?? "")}.`;
}

/**
 * What the eviction cost, in two figures: the work since the last checkpoint, and the restart, which the record counts with it.
 * restartCostMs: of the policy, for each GPU; null: unknown.
 */
function lossTexts(eviction: Eviction, restartCostMs: number | null): { workLost: string; restartCost: string | null } {
  if (eviction.lost_gpu_hours === null) return { workLost: eviction.stages.released || eviction.outcome ? "Not recorded." : "Unknown until the eviction completes.", restartCost: null };
  const lost = eviction.lost_gpu_hours * 3_600_000;
  if (lost < NOTHING_MS) return { workLost: "None.", restartCost: null };
  if (restartCostMs === null || eviction.gpus === null) return { workLost: `${gpuTime(lost)} since its last checkpoint, including the restart.`, restartCost: null };
  const restart = Math.min(lost, eviction.gpus * restartCostMs);
  return { workLost: lost - restart < NOTHING_MS ? "None." : `${gpuTime(lost - restart)} since its last checkpoint.`, restartCost: `${gpuTime(restart)} (${duration(restartCostMs / 1000)} on ${count(eviction.gpus, "GPU")})` };
}

function restartText(eviction: Eviction, live: LiveJob | null, ended: string | null, last: boolean): { restart: string; hasRestarted: boolean } {
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
    sentences.push(`Runner-up: ${few(why.runner_up)}, with ${gpuTime(loses)} of work lost.`);
  }
  if (why.candidates) sentences.push(`${why.candidates === 1 ? "One job was an eligible victim" : `${why.candidates} jobs were eligible victims`}.`);
  for (const group of why.excluded ?? []) {
    const names = group.examples?.length ? ` (${few(group.examples, 3, group.jobs)})` : "";
    sentences.push(`Rule ${group.rule} protected ${group.jobs === 1 ? "one job" : `${group.jobs} jobs`}${names}: ${group.jobs === 1 ? "it" : "each"} ${ruleText(group.rule)}.`);
  }
  return sentences;
}

/** The live eviction in the archive's format, until the archive has it. */
export function liveEviction(live: LiveJob): Eviction | null {
  const current = live.eviction;
  if (!current) return null;
  return {
    decided_seq: current.decided_seq, decided_at: current.started_at ?? "", job: live.job, submitted_seq: null, attempt: live.attempt, tasks: null,
    project: live.project, priority_class: live.priority_class, cause: current.for_job ? "preemption" : current.cause, action: null, for_job: current.for_job,
    for_class: null, for_priority: null, reason: null, gpus: live.gpus, lost_gpu_hours: null, cost: null, explanation: null,
    stages: {}, until_released_s: null, until_resumed_s: null, outcome: null,
  };
}
