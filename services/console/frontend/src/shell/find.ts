import type { LiveJob } from "../live/shapes";

/** Jobs whose name or user has the text, those whose name begins with it first, then by name. */
export function findJobs(jobs: Iterable<LiveJob>, text: string, most: number): LiveJob[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const rank = ({ job }: LiveJob): number => (job.toLowerCase().startsWith(wanted) ? 0 : job.toLowerCase().includes(wanted) ? 1 : 2);
  return [...jobs]
    .filter((row) => row.job.toLowerCase().includes(wanted) || row.user.toLowerCase() === wanted)
    .sort((a, b) => rank(a) - rank(b) || (a.job < b.job ? -1 : 1))
    .slice(0, most);
}

/** Where Enter leads: the only job that is meant, or else the text as a name, as of a job that has ended. null: nothing is asked. */
export function meant(jobs: ReadonlyMap<string, LiveJob>, text: string): string | null {
  const name = text.trim();
  if (!name || jobs.has(name)) return name || null;
  const found = findJobs(jobs.values(), name, 2);
  return found.length === 1 ? found[0]!.job : name;
}
