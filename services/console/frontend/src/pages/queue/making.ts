// For whom room is being made, and who leaves for it.
import { few } from "../../lib/terms";
import { count } from "../../lib/words";
import type { LiveJob } from "../../live/shapes";

/** asker null: they leave for nobody, but because of `cause`. deadline: when the last grace ends. */
export interface Making {
  key: string;
  asker: LiveJob | null;
  name: string | null;
  cause: string;
  leaving: LiveJob[];
  gpus: number;
  deadline: string | null;
  seq: number;
}

/** Evictions by whom they are for, the oldest decision first; then jobs that have their room reserved and wait for nobody here. */
export function makings(jobs: ReadonlyMap<string, LiveJob>): Making[] {
  const found = new Map<string, Making>();
  for (const job of jobs.values()) {
    const eviction = job.eviction;
    if (eviction === null) continue;
    const key = eviction.for_job === null ? `#${eviction.cause}` : `@${eviction.for_job}`;
    const making = found.get(key) ?? empty(key, eviction.for_job, eviction.cause, jobs, eviction.decided_seq);
    making.leaving.push(job);
    making.gpus += job.gpus;
    making.seq = Math.min(making.seq, eviction.decided_seq);
    if (eviction.deadline !== null && (making.deadline === null || eviction.deadline > making.deadline)) making.deadline = eviction.deadline;
    found.set(key, making);
  }
  for (const job of jobs.values()) {
    const key = `@${job.job}`;
    if (job.state === "reserved" && !found.has(key)) found.set(key, { ...empty(key, job.job, "", jobs, Number.MAX_SAFE_INTEGER) });
  }
  for (const making of found.values()) making.leaving.sort((a, b) => (a.job < b.job ? -1 : 1));
  return [...found.values()].sort((a, b) => a.seq - b.seq || (a.key < b.key ? -1 : 1));
}

const empty = (key: string, name: string | null, cause: string, jobs: ReadonlyMap<string, LiveJob>, seq: number): Making => ({
  key,
  asker: name === null ? null : (jobs.get(name) ?? null),
  name,
  cause,
  leaving: [],
  gpus: 0,
  deadline: null,
  seq,
});

const CAUSES: Record<string, string> = {
  preemption: "to make room",
  cancelled: "cancelled",
  "gang-failure": "a part of the gang failed",
  "stale-gang": "the gang is not whole",
  scaled: "scaled down",
  policy: "the policy no longer admits it",
  "time-limit": "limit of run time",
  device: "a GPU in trouble",
  "over-share": "the project is over its share",
  paused: "paused",
  asked: "asked for by a person",
  drain: "drain of the node",
  migration: "goes on at another place",
  resize: "goes on with another size",
};

/** Why jobs leave that leave for nobody. */
export const causeText = (cause: string): string => CAUSES[cause] ?? cause;

const STAGES: Record<string, string> = {
  decided: "is to be told",
  began: "is being told",
  begun: "is being told",
  noticed: "has been told",
  acknowledged: "knows, and finishes its step",
  step_confirmed: "agrees on a step with its gang",
  step_agreed: "agreed on a step with its gang",
  checkpoint_started: "is saving",
  saving_in_flight: "is saving",
  checkpoint_committed: "has saved",
  yielding: "says that it leaves now",
  term_sent: "was sent TERM",
  kill_sent: "was sent KILL",
  exited: "has ended; its GPUs are being proved free",
  released: "is gone",
};

/** Where an eviction stands, as in `train-1 is saving`. */
export const stageText = (stage: string): string => STAGES[stage] ?? stage.replaceAll("_", " ");

/** `2 jobs leave 8 GPUs for serve-1.` */
export function makingText(making: Making): string {
  const who = `${count(making.leaving.length, "job")} ${making.leaving.length === 1 ? "leaves" : "leave"} ${count(making.gpus, "GPU")}`;
  if (making.name === null) return `${who}: ${causeText(making.cause)}.`;
  if (making.leaving.length === 0) {
    const nodes = making.asker?.reserved_nodes ?? [];
    return `Has its room reserved${nodes.length ? ` on ${few(nodes)}` : ""}, and starts when it is free.`;
  }
  return `${who} for it.`;
}
