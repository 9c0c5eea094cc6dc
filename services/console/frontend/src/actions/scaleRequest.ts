/** The task groups of a job, in order, with the number of tasks of each. */
export type Groups = { count: number }[];

/** What the user entered: `tasks` and `minimum` as typed. */
interface ScaleInput {
  group: number;
  tasks: string;
  minimum: string;
}

/** The fields of the request, or why the input is not valid. */
export function scaleRequest({ group, tasks, minimum }: ScaleInput, groups: Groups): { fault: string } | { fields: Record<string, unknown> } {
  const count = positiveInteger(tasks);
  if (count === null || count < 1) return { fault: "Enter the number of tasks, an integer of at least 1." };
  const total = groups.reduce((sum, each, at) => sum + (at === group ? count : each.count), 0);
  if (total > 10_000) return { fault: `A job has at most 10,000 tasks; this one would have ${total.toLocaleString("en")}.` };
  const minTasks = minimum.trim() === "" ? null : positiveInteger(minimum);
  if (minimum.trim() !== "" && (minTasks === null || minTasks < 1)) return { fault: "The minimum is an integer of at least 1, or empty." };
  if (minTasks !== null && minTasks > total) return { fault: `The minimum of ${minTasks} tasks is larger than the job's ${total} tasks.` };
  return { fields: { group, tasks: count, ...(minTasks === null ? {} : { min_tasks: minTasks }) } };
}

function positiveInteger(text: string): number | null {
  return /^\d{1,9}$/.test(text.trim()) ? Number(text) : null;
}
