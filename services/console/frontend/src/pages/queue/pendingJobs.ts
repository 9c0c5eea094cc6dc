// The queue page's view of the jobs: pending by position, suspended, paused, and running with fewer tasks than requested.
import type { LiveJob } from "../../api";
import { brief, count, duration } from "../../lib";

/** position: 1 is first. */
export interface QueueEntry {
  job: LiveJob;
  position: number;
}

interface QueueView {
  pending: QueueEntry[];
  suspended: LiveJob[];
  paused: LiveJob[];
  /** For other jobs; outside the queue. */
  waiting: LiveJob[];
  /** Running with fewer tasks than requested. */
  partial: LiveJob[];
}

const RUNNING_STATES = new Set(["running", "starting"]);

export function queueView(jobs: ReadonlyMap<string, LiveJob>, queue: readonly string[]): QueueView {
  const view: QueueView = { pending: [], suspended: [], paused: [], waiting: [], partial: [] };
  for (const name of queue) {
    const job = jobs.get(name);
    if (!job) continue;
    if (job.state === "pending") view.pending.push({ job, position: view.pending.length + 1 });
    else if (RUNNING_STATES.has(job.state) && job.placed_tasks < job.tasks) view.partial.push(job);
  }
  for (const job of jobs.values()) {
    if (job.state === "waiting") view.waiting.push(job);
    else if (job.state === "suspended") view.suspended.push(job);
    else if (job.state === "paused" || job.state === "pausing") view.paused.push(job);
  }
  return view;
}

/** project null: any. */
export interface QueueFilter {
  project: string | null;
  class: string;
  text: string;
}

export const NO_FILTER: QueueFilter = { project: null, class: "", text: "" };

export function matchesFilter(job: LiveJob, filter: QueueFilter, projects: ReadonlySet<string> | null): boolean {
  if (projects !== null && !projects.has(job.project)) return false;
  if (filter.class && job.priority_class !== filter.class) return false;
  const text = filter.text.trim().toLowerCase();
  return !text || job.job.toLowerCase().includes(text) || job.user.toLowerCase().includes(text);
}

/** `5 jobs pending, requesting 22 GPUs; 3 GPUs free. Longest pending time: 31m.` now: ms. more: pending jobs without a row. */
export function queueText(pending: readonly QueueEntry[], free: number, now: number, more = 0): string {
  const freeText = `${count(free, "GPU")} free`;
  if (more > 0) return `${(pending.length + more).toLocaleString("en")} jobs pending; ${freeText}.`;
  if (!pending.length) return `No jobs pending; ${freeText}.`;
  const requested = pending.reduce((sum, { job }) => sum + job.gpus, 0);
  const oldest = pending.reduce<LiveJob | null>(
    (view, { job }) => (job.pending_since !== null && (view === null || job.pending_since < view.pending_since!) ? job : view),
    null,
  );
  const longest = oldest ? ` Longest pending time: ${duration((now - Date.parse(oldest.pending_since!)) / 1000)}.` : "";
  return `${count(pending.length, "job")} pending, requesting ${count(requested, "GPU")}; ${freeText}.${longest}`;
}

/** Why the job is pending, in a sentence. */
export function pendingText(job: LiveJob, ahead: number): string {
  const why = job.pending_reason || job.note;
  if (why) return brief(why);
  return ahead === 0 ? "First in the queue; not tried yet." : "No reason recorded yet.";
}
