// Two costs compared level by level, as the objective does: the first level at which they differ is decisive.
import type { Cost } from "../../api";
import { exactGpuTime, gpuCount, gpuTime } from "../../lib";

interface Level {
  name: string;
  values: string[];
  decides: boolean;
}

const NAMES: [keyof Cost & string, string, (value: number) => string][] = [
  ["under_share_gpu_milli", "GPUs of projects within their fair share", gpuCount],
  ["jobs_ended", "Jobs ended for good", String],
  ["lost_gpu_ms", "Work lost and restart", gpuTime],
  ["jobs_stopped", "Jobs stopped", String],
  ["tasks", "Tasks evicted", String],
  ["fragmented_nodes", "Nodes fragmented", String],
];

/** The levels of these costs, the chosen one first; null: no such set. Levels with only zeros are omitted, except the work lost. */
export function costLevels(costs: (Cost | null)[]): Level[] {
  const priorities = [...new Set(costs.flatMap((cost) => (cost?.classes ?? []).map((each) => each.priority)))].sort((left, right) => right - left);
  const rows: [string, (number | null)[], (value: number) => string, boolean][] = [
    ...priorities.map((priority): [string, (number | null)[], (value: number) => string, boolean] => [
      `GPUs evicted at priority ${priority}`,
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
      return { name, values: values.map((value) => (value === null ? "" : alike ? exactGpuTime(value) : shown(value))), decides };
    });
}
