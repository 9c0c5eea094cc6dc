// Why a job had to leave, in four answers: for whom, by which rule, what it lost, when it is back.
import { duration } from "../../lib/words";
import { becauseOf, few, gpuTime, ruleSays } from "../../lib/terms";
import type { LiveJob } from "../../live/shapes";
import type { Eviction, Explanation } from "./shapes";

export interface Reason {
  /** The job that needed the room; null: there was none. */
  forJob: string | null;
  forWhom: string;
  rule: string;
  lost: string;
  back: string;
  isBack: boolean;
}

/** last: it is the newest of the job's evictions, so that the live row tells when it is back. */
export function reasonOf(eviction: Eviction, live: LiveJob | null, ended: string | null, last: boolean): Reason {
  const now = last && live?.eviction?.decided_seq === eviction.decided_seq ? live.eviction.for_job : null; // another may have taken its place
  const rank = eviction.for_class ? `${eviction.for_class} ${eviction.for_priority ?? ""}`.trim() : "";
  return {
    forJob: eviction.for_job,
    forWhom: eviction.for_job ? [rank, now && now !== eviction.for_job ? `the room is now for ${now}` : ""].filter(Boolean).join("; ") : `For no other job: ${becauseOf(eviction.cause ?? "")}.`,
    rule: ruleOf(eviction, rank, live),
    lost: lostOf(eviction),
    ...backOf(eviction, live, ended, last),
  };
}

function ruleOf(eviction: Eviction, rank: string, live: LiveJob | null): string {
  const taken = eviction.cost?.classes ?? [];
  const priority = taken.length === 1 ? taken[0]!.priority : live?.class === eviction.priority_class ? live?.priority : undefined;
  const own = `${eviction.priority_class ?? "its class"} ${priority ?? ""}`.trim();
  if (eviction.verb === "reclaim") return `Reclaim: ${eviction.project ? `project ${eviction.project}` : "its side"} holds more than its share, and ${eviction.for_job ?? "the asker"} is due the room.`;
  if (eviction.verb === "consolidate") return "Consolidate: moving it brings room together in one piece; everybody that is moved has a new place.";
  if (eviction.cause === "preemption") return `${rank || "The asker"} goes before ${own} (rule lower-priority-only).`;
  return eviction.why ? eviction.why : `Because ${becauseOf(eviction.cause ?? "")}.`;
}

function lostOf(eviction: Eviction): string {
  if (eviction.lost_gpu_hours === null) return eviction.stages.released || eviction.outcome ? "Nothing is noted." : "Not known before it has left.";
  if (eviction.lost_gpu_hours === 0) return "Nothing.";
  return `${gpuTime(eviction.lost_gpu_hours * 3_600_000)} of work since its last checkpoint, and the restart.`;
}

function backOf(eviction: Eviction, live: LiveJob | null, ended: string | null, last: boolean): { back: string; isBack: boolean } {
  const is = (back: string, isBack = true) => ({ back, isBack });
  if (eviction.stages.withdrawn && (eviction.outcome === "withdrawn" || eviction.outcome === "spared")) return is("It stayed after all: the eviction was taken back.");
  if (eviction.outcome === "spared") return is("It stayed after all.");
  if (eviction.stages.resumed && eviction.until_resumed_s !== null) return is(`It ran again ${duration(eviction.until_resumed_s)} after the decision.`);
  if (eviction.tasks) return is("The job itself went on; only some of its tasks left.");
  if (ended) return is(`Never: it ${ended === "cancelled" ? "was cancelled" : `ended (${ended})`}.`, false);
  if (!last || !live) return is("That is not known here.", false);
  if (live.back) return is(live.back, false);
  if (live.state === "running") return is("It runs again.");
  if (live.state === "starting" || live.state === "reserved") return is("It has a place again and starts soon.", false);
  if (live.state === "paused") return is("When somebody resumes it: it is paused.", false);
  if (live.eviction) return is("It is still on its way out; then it goes back to the queue, at its old place.", false);
  if (live.ahead !== null) return is(live.ahead === 0 ? "It is first in the queue, at its old place." : `It is in the queue at its old place, ${live.ahead === 1 ? "one job" : `${live.ahead} jobs`} before it.`, false);
  return is("It is back in the queue, at its old place.", false);
}

/** What else could have been done: sentences. */
export function alternatives(why: Explanation | null): string[] {
  if (!why) return [];
  const said: string[] = [];
  if (why.proven) said.push("It is proven that no permitted set of jobs is cheaper.");
  else if (why.steps) said.push(`It is the cheapest that ${why.steps.toLocaleString("en")} steps of search found, not proven.`);
  if (why.runner_up?.length) {
    const loses = why.runner_up_cost?.lost_gpu_ms ?? why.runner_up_lost_gpu_ms ?? 0;
    said.push(`Second best would have been ${few(why.runner_up)}, losing ${gpuTime(loses)}.`);
  }
  if (why.candidates) said.push(`${why.candidates === 1 ? "One job" : `${why.candidates} jobs`} could have been taken.`);
  for (const group of why.excluded ?? []) {
    const names = group.examples?.length ? ` (${few(group.examples, 3, group.jobs)})` : "";
    said.push(`Rule ${group.rule} shielded ${group.jobs === 1 ? "one job" : `${group.jobs} jobs`}${names}: each ${ruleSays(group.rule)}.`);
  }
  return said;
}

/** The live row's eviction in the archive's shape, for as long as the archive does not have it. */
export function fromLive(live: LiveJob): Eviction | null {
  const now = live.eviction;
  if (!now) return null;
  return {
    decided_seq: now.decided_seq, decided_at: now.began_at ?? "", job: live.job, submitted_seq: null, attempt: live.attempt, tasks: null,
    project: live.project, priority_class: live.class, cause: now.for_job ? "preemption" : now.cause, verb: null, for_job: now.for_job,
    for_class: null, for_priority: null, why: null, gpus: live.gpus, lost_gpu_hours: null, cost: null, explanation: null,
    stages: {}, until_released_s: null, until_resumed_s: null, outcome: null,
  };
}
