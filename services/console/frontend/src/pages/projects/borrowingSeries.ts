// Borrowed GPUs per project over time, averaged over intervals.
import { count, gpuTime } from "../../lib/format";

/** One value per interval; null: unknown, or the project did not exist. */
export interface ProjectSeries {
  project: string;
  borrowed: (number | null)[];
  borrowed_gpu_hours: number;
  max_borrowed: number;
}

/** `/api/archive/pools/{pool}/quota-series`; the largest borrower is first, "" is the whole pool. */
export interface QuotaSeries {
  from: string | null;
  to: string | null;
  interval_s: number;
  times: string[];
  projects: ProjectSeries[];
}

/** Projects that borrowed. */
export const borrowers = (found: QuotaSeries): ProjectSeries[] => found.projects.filter((row) => row.project !== "" && row.max_borrowed > 0);

export const HEIGHT = 100;

/** SVG path of a step area, one unit wide per value and `HEIGHT` high at `most`. */
export function stepsPath(values: readonly (number | null)[], most: number): string {
  const points = values.flatMap((value, at) => {
    const y = HEIGHT - (most > 0 ? Math.round(((value ?? 0) / most) * HEIGHT * 10) / 10 : 0);
    return [`${at} ${y}`, `${at + 1} ${y}`];
  });
  return values.length ? `M0 ${HEIGHT}L${points.join("L")}L${values.length} ${HEIGHT}Z` : "";
}

/** `at most 6 GPUs, 2.3 GPU-h in total, 40 % of the time`. */
export function borrowedText(row: ProjectSeries): string {
  const known = row.borrowed.filter((value) => value !== null);
  const part = known.length ? Math.round((100 * known.filter((value) => value > 0).length) / known.length) : 0;
  return `at most ${count(row.max_borrowed, "GPU")}, ${gpuTime(row.borrowed_gpu_hours * 3_600_000)} in total, ${part} % of the time`;
}
