// Borrowed GPUs per project over time, averaged over intervals.
import type { ProjectSeries, QuotaSeries } from "../../api";
import { count, gpuTime, projectName } from "../../lib";
import { seriesColour, type Series } from "../../ui/Chart";

/** Projects that borrowed. */
export const borrowers = (found: QuotaSeries): ProjectSeries[] => found.projects.filter((row) => row.project !== "" && row.max_borrowed > 0);

/** `at most 6 GPUs, 2.3 GPU-h in total, 40 % of the time`. */
export function borrowedText(row: ProjectSeries): string {
  const known = row.borrowed.filter((value) => value !== null);
  const part = known.length ? Math.round((100 * known.filter((value) => value > 0).length) / known.length) : 0;
  return `at most ${count(row.max_borrowed, "GPU")}, ${gpuTime(row.borrowed_gpu_hours * 3_600_000)} in total, ${part} % of the time`;
}

const SHOWN = 7;

/** The largest borrowers, as lines: a project's usage includes that of its children, so that a sum would count them twice. */
export const borrowedLines = (rows: readonly ProjectSeries[]): Series[] =>
  [...rows].sort((one, other) => other.borrowed_gpu_hours - one.borrowed_gpu_hours).slice(0, SHOWN).map((row, at) => ({ name: projectName(row.project), kind: "line", colour: seriesColour(at), values: row.borrowed }));
