// GPU-hours as texts, and where a project's month is reported.
import { pagePath } from "../ui";

export const hours = (value: number): string => (value > 0 && value < 0.005 ? "< 0.01" : value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 }));

/** `37 %`; nothing without a whole. */
export const percent = (part: number, whole: number): string => (whole > 0 ? `${Math.round((100 * part) / whole)} %` : "–");

/** URL of the monthly report of a project. */
export const reportPath = (pool: string, project: string, month: string): string => pagePath(pool, ["accounting"], { project, month });
