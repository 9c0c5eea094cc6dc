/** Of a job's task groups, in order, how many tasks each has. */
export type Groups = { count: number }[];

export interface Scaling {
  group: number;
  tasks: string;
  least: string;
}

/** What is missing before it can be asked, or the fields of the request. Text of `tasks` and `least` as it was typed. */
export function scaling(job: string, { group, tasks, least }: Scaling, groups: Groups): { fault: string } | { fields: Record<string, unknown> } {
  const count = whole(tasks);
  if (count === null || count < 1) return { fault: "Say how many tasks, a whole number from 1 on." };
  const all = groups.reduce((sum, each, at) => sum + (at === group ? count : each.count), 0);
  if (all > 10_000) return { fault: `A job holds at most 10,000 tasks, this one would have ${all.toLocaleString("en")}.` };
  const minimum = least.trim() === "" ? null : whole(least);
  if (least.trim() !== "" && (minimum === null || minimum < 1)) return { fault: "The least number is a whole number from 1 on, or left out." };
  if (minimum !== null && minimum > all) return { fault: `It would have ${all} tasks: ${minimum} of them cannot be needed.` };
  return { fields: { job, group, tasks: count, ...(minimum === null ? {} : { min_tasks: minimum }) } };
}

function whole(text: string): number | null {
  return /^\d{1,9}$/.test(text.trim()) ? Number(text) : null;
}
