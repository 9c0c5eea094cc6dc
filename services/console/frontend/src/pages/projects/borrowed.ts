// Who borrowed what over time, as the archive sums it up in stretches.
import { gpuTime } from "../../lib/terms";
import { count } from "../../lib/words";

/** A value for each stretch; null: not known, or no such project then. */
export interface OverTimeRow {
  project: string;
  borrowed: (number | null)[];
  borrowed_gpu_hours: number;
  most_borrowed: number;
}

/** `/api/archive/domains/{pool}/borrowing`; the project that borrowed most is first, "" is the whole pool. */
export interface Borrowing {
  from: string | null;
  to: string | null;
  stretch_s: number;
  times: string[];
  projects: OverTimeRow[];
}

/** Those that borrowed anything. */
export const borrowers = (found: Borrowing): OverTimeRow[] => found.projects.filter((row) => row.project !== "" && row.most_borrowed > 0);

export const HEIGHT = 100;

/** The outline of an area of steps, one unit wide each and `HEIGHT` high where the value is `most`. */
export function stepsPath(values: readonly (number | null)[], most: number): string {
  const points = values.flatMap((value, at) => {
    const y = HEIGHT - (most > 0 ? Math.round(((value ?? 0) / most) * HEIGHT * 10) / 10 : 0);
    return [`${at} ${y}`, `${at + 1} ${y}`];
  });
  return values.length ? `M0 ${HEIGHT}L${points.join("L")}L${values.length} ${HEIGHT}Z` : "";
}

/** `at most 6 GPUs, 2.3 GPU-h in all, 40 % of the time`. */
export function borrowedText(row: OverTimeRow): string {
  const known = row.borrowed.filter((value) => value !== null);
  const part = known.length ? Math.round((100 * known.filter((value) => value > 0).length) / known.length) : 0;
  return `at most ${count(row.most_borrowed, "GPU")}, ${gpuTime(row.borrowed_gpu_hours * 3_600_000)} in all, ${part} % of the time`;
}
