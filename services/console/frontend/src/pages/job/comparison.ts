// Things side by side: one row per property, marked where they differ.
import { gpuTime } from "../../lib";
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

const lossText = (gpuMs: number): string => (gpuMs < NOTHING_MS ? "none" : gpuTime(gpuMs));

/** Work since the last checkpoint, and what the policy assumes that the restarts cost. */
export function losses(attempts: readonly { work_lost_gpu_ms: number | null; restart_gpu_ms: number | null }[]): Record<string, string> {
  const sum = (values: (number | null)[]): number => values.reduce<number>((all, value) => all + (value ?? 0), 0);
  return { "Work lost": lossText(sum(attempts.map((each) => each.work_lost_gpu_ms))), "Restart cost": lossText(sum(attempts.map((each) => each.restart_gpu_ms))) };
}
