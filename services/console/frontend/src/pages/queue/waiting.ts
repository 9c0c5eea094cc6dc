// The queue as people ask for it: who waits in which place, who is held or paused, who runs with less than it wants.
import { brief } from "../../lib/records";
import { count, duration } from "../../lib/words";
import type { LiveJob } from "../../live/shapes";

/** position: 1 is first. */
export interface Place {
  job: LiveJob;
  position: number;
}

export interface Waiting {
  waiting: Place[];
  held: LiveJob[];
  paused: LiveJob[];
  /** They run, with fewer tasks than they want. */
  partly: LiveJob[];
}

const RUNS = new Set(["running", "starting"]);

export function waitingOf(jobs: ReadonlyMap<string, LiveJob>, queue: readonly string[]): Waiting {
  const found: Waiting = { waiting: [], held: [], paused: [], partly: [] };
  for (const name of queue) {
    const job = jobs.get(name);
    if (!job) continue;
    if (job.state === "pending") found.waiting.push({ job, position: found.waiting.length + 1 });
    else if (RUNS.has(job.state) && job.placed < job.tasks) found.partly.push(job);
  }
  for (const job of jobs.values()) {
    if (job.state === "held") found.held.push(job);
    else if (job.state === "paused" || job.state === "pausing") found.paused.push(job);
  }
  return found;
}

/** project null: any. */
export interface QueueFilter {
  project: string | null;
  class: string;
  text: string;
}

export const ANY: QueueFilter = { project: null, class: "", text: "" };

export function fits(job: LiveJob, filter: QueueFilter, projects: ReadonlySet<string> | null): boolean {
  if (projects !== null && !projects.has(job.project)) return false;
  if (filter.class && job.class !== filter.class) return false;
  const text = filter.text.trim().toLowerCase();
  return !text || job.job.toLowerCase().includes(text) || job.user.toLowerCase().includes(text);
}

/** `5 jobs wait for 22 GPUs; bert waits longest, for 31 min.` now: ms. */
export function queueText(waiting: readonly Place[], free: number, now: number): string {
  const spare = `${count(free, "GPU")} ${free === 1 ? "is" : "are"} free`;
  if (!waiting.length) return `Nobody waits; ${spare}.`;
  const wanted = waiting.reduce((sum, { job }) => sum + job.gpus, 0);
  const oldest = waiting.reduce<LiveJob | null>(
    (found, { job }) => (job.waiting_since !== null && (found === null || job.waiting_since < found.waiting_since!) ? job : found),
    null,
  );
  const longest = oldest ? `; the one that waits longest has waited ${duration((now - Date.parse(oldest.waiting_since!)) / 1000)}` : "";
  return `${count(waiting.length, "job")} ${waiting.length === 1 ? "waits" : "wait"} for ${count(wanted, "GPU")}, and ${spare}${longest}.`;
}

/** Why it waits, in a sentence. */
export function whyText(job: LiveJob, ahead: number): string {
  const why = job.why || job.note;
  if (why) return brief(why);
  return ahead === 0 ? "It is first, and has not been tried yet." : "No reason is on record yet.";
}
