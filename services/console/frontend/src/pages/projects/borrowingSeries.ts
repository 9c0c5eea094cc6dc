// Borrowed GPUs per project over time, averaged over intervals.
import type { ProjectSeries, QuotaSeries } from "../../api";
import { count, gpuTime, projectName } from "../../lib";
import { seriesColour, type Series } from "../../ui/Chart";
import { partText } from "./usageSeries";

/** Projects that borrowed. */
export const borrowers = (found: QuotaSeries): ProjectSeries[] => found.projects.filter((row) => row.project !== "" && row.max_borrowed > 0);

/** `at most 6 GPUs, 2.3 GPU-h in total, 40 % of the time`. */
export const borrowedText = (row: ProjectSeries): string =>
  `at most ${count(row.max_borrowed, "GPU")}, ${gpuTime(row.borrowed_gpu_hours * 3_600_000)} in total, ${partText(row.borrowed_part)}`;

const SHOWN = 7;

/** The largest borrowers, as lines: a project's usage includes that of its children, so that a sum would count them twice. */
export const borrowedLines = (rows: readonly ProjectSeries[]): Series[] =>
  [...rows].sort((one, other) => other.borrowed_gpu_hours - one.borrowed_gpu_hours).slice(0, SHOWN).map((row, at) => ({ name: projectName(row.project), kind: "line", colour: seriesColour(at), values: row.borrowed }));
