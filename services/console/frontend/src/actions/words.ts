import type { Affected } from "./requests";

/** Work in thousandths of a GPU-second: `42 GPU-s`, `3.5 GPU-min`, `12 GPU-h`. */
export function gpuTime(milli: number): string {
  const steps: [number, string][] = [
    [3_600_000, "GPU-h"],
    [60_000, "GPU-min"],
    [1_000, "GPU-s"],
  ];
  const [size, unit] = steps.find(([least]) => milli >= least) ?? steps[2]!;
  const amount = Math.round((milli / size) * 10) / 10;
  return `${amount.toLocaleString("en")} ${unit}`;
}

/** `moves to node-2`, `leaves`. */
export const does = (row: Pick<Affected, "what" | "to">): string =>
  row.to.length ? `${row.what} ${row.what === "starts" ? "on" : "to"} ${row.to.slice(0, 3).join(", ")}${row.to.length > 3 ? ` and ${row.to.length - 3} more` : ""}` : row.what;
