import type { Affected } from "./requests";

/** Work in thousandths of a GPU-second: `42 GPU-seconds`, `3.5 GPU-minutes`, `12 GPU-hours`. */
export function gpuTime(milli: number): string {
  const steps: [number, string][] = [
    [3_600_000, "GPU-hour"],
    [60_000, "GPU-minute"],
    [1_000, "GPU-second"],
  ];
  const [size, unit] = steps.find(([least]) => milli >= least) ?? steps[2]!;
  const amount = Math.round((milli / size) * 10) / 10;
  return `${amount.toLocaleString("en")} ${unit}${amount === 1 ? "" : "s"}`;
}

/** `moves to node-2`, `leaves`. */
export const does = (row: Pick<Affected, "what" | "to">): string =>
  row.to.length ? `${row.what} to ${row.to.slice(0, 3).join(", ")}${row.to.length > 3 ? ` and ${row.to.length - 3} more` : ""}` : row.what;
