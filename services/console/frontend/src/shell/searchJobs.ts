import type { LiveJob } from "../api";

/** Jobs whose name contains the text or whose user equals it; prefix matches first, then by name. */
export function searchJobs(jobs: Iterable<LiveJob>, text: string, most: number): LiveJob[] {
  const query = text.trim().toLowerCase();
  if (!query) return [];
  const rank = ({ job }: LiveJob): number => (job.toLowerCase().startsWith(query) ? 0 : job.toLowerCase().includes(query) ? 1 : 2);
  return [...jobs]
    .filter((row) => row.job.toLowerCase().includes(query) || row.user.toLowerCase() === query)
    .sort((a, b) => rank(a) - rank(b) || (a.job < b.job ? -1 : 1))
    .slice(0, most);
}

/** The job that Enter opens: the only match, else the text as typed, e.g. of a job that has ended. null: empty input. */
export function resolveJob(jobs: ReadonlyMap<string, LiveJob>, text: string): string | null {
  const name = text.trim();
  if (!name || jobs.has(name)) return name || null;
  const found = searchJobs(jobs.values(), name, 2);
  return found.length === 1 ? found[0]!.job : name;
}
