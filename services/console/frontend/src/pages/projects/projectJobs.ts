import type { LiveJob } from "../../api";

const ORDER = ["evicting", "running", "starting", "reserved", "pending"];

/** Jobs of the projects: evicting, running, pending, then the rest. */
export function jobsOf(jobs: Iterable<LiveJob>, mine: (project: string) => boolean): LiveJob[] {
  const rank = (job: LiveJob): number => (ORDER.indexOf(job.state) + ORDER.length + 1) % (ORDER.length + 1);
  return [...jobs].filter((job) => mine(job.project)).sort((a, b) => rank(a) - rank(b) || b.gpus - a.gpus || (a.job < b.job ? -1 : 1));
}
