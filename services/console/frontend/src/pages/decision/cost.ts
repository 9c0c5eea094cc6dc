// Two costs beside each other, level by level as the objective compares them: the first level at which they differ decides.
import { gpuCount, gpuTime } from "../../lib/terms";
import type { Cost } from "./shapes";

export interface Level {
  name: string;
  values: string[];
  decides: boolean;
}

const NAMES: [keyof Cost & string, string, (value: number) => string][] = [
  ["under_share_gpu_milli", "GPUs of projects within their share", gpuCount],
  ["lost_gpu_ms", "Work lost", gpuTime],
  ["jobs_stopped", "Jobs stopped", String],
  ["tasks", "Tasks that leave", String],
  ["broken_nodes", "Gaps left on nodes that others use", String],
];

/** The first is the chosen one; null: there is none. A level at which all are 0 is left out, but for the work lost. */
export function levels(costs: (Cost | null)[]): Level[] {
  const priorities = [...new Set(costs.flatMap((cost) => (cost?.classes ?? []).map((each) => each.priority)))].sort((left, right) => right - left);
  const rows: [string, (number | null)[], (value: number) => string, boolean][] = [
    ...priorities.map((priority): [string, (number | null)[], (value: number) => string, boolean] => [
      `GPUs taken from priority ${priority}`,
      costs.map((cost) => cost && (cost.classes?.find((each) => each.priority === priority)?.gpu_milli ?? 0)),
      gpuCount,
      false,
    ]),
    ...NAMES.map(([name, words, shown]): [string, (number | null)[], (value: number) => string, boolean] => [
      words,
      costs.map((cost) => cost && ((cost[name] as number | undefined) ?? 0)),
      shown,
      name === "lost_gpu_ms",
    ]),
  ];
  let decided = false;
  return rows
    .filter(([, values, , always]) => always || values.some((value) => value))
    .map(([name, values, shown]) => {
      const [chosen, other] = values;
      const differ = typeof chosen === "number" && typeof other === "number" && chosen !== other;
      const decides = !decided && differ;
      decided ||= decides;
      const alike = decides && differ && shown(chosen) === shown(other); // when rounded
      return { name, values: values.map((value) => (value === null ? "" : alike ? `${value / 1000} GPU-s` : shown(value))), decides };
    });
}
