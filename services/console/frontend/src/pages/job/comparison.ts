// Things side by side: one row per property, marked where they differ.
import { gpuTime } from "../../lib/format";
import { NOTHING_MS } from "./evictionReason";

export interface Compared {
  name: string;
  values: Record<string, string>;
}

export function comparison(columns: readonly Compared[]): { name: string; values: string[]; differs: boolean }[] {
  const names = [...new Set(columns.flatMap((column) => Object.keys(column.values)))];
  return names.map((name) => {
    const values = columns.map((column) => column.values[name] ?? "–");
    return { name, values, differs: new Set(values).size > 1 };
  });
}

const gpuHours = (hours: number): string => (hours * 3_600_000 < NOTHING_MS ? "none" : gpuTime(hours * 3_600_000));

/** Work since the last checkpoint and the cost of the restart, which the records count together. restartMs: of each GPU; null: unknown. */
export function losses(attempts: readonly { lost_gpu_hours: number | null }[], gpus: number | null, restartMs: number | null): Record<string, string> {
  const lost = attempts.map((attempt) => attempt.lost_gpu_hours ?? 0);
  const sum = (values: number[]): number => values.reduce((all, value) => all + value, 0);
  if (restartMs === null || gpus === null) return { "Lost, with the restart": gpuHours(sum(lost)) };
  const restarts = lost.map((hours) => Math.min(hours, (gpus * restartMs) / 3_600_000));
  return { "Work lost": gpuHours(sum(lost) - sum(restarts)), "Restart cost": gpuHours(sum(restarts)) };
}
