// The jobs on a node's GPUs, each once.
import type { LiveNode } from "../../api";
import { adjacent } from "../../lib";
import { jobOfTask } from "./map/gpuFilter";

/** gpus: `0–3, 6`; reservedFor: the job that they are reserved for next. */
interface NodeAllocation {
  job: string;
  gpus: string;
  reservedFor: string | null;
}

export function allocationsOn(node: LiveNode): NodeAllocation[] {
  const found = new Map<string, { numbers: number[]; reservedFor: string | null }>();
  node.devices.forEach(([, holder, reservedFor, sharedBy], at) => {
    const names = holder !== null && sharedBy.length === 0 ? [holder] : [...new Set(sharedBy.map(jobOfTask))];
    for (const name of names) {
      const allocation = found.get(name) ?? { numbers: [], reservedFor: null };
      allocation.numbers.push(at);
      allocation.reservedFor = reservedFor !== name ? (reservedFor ?? allocation.reservedFor) : allocation.reservedFor;
      found.set(name, allocation);
    }
  });
  return [...found].map(([job, { numbers, reservedFor }]) => ({ job, gpus: ranges(numbers), reservedFor }));
}

/** `0–3, 6` */
export const ranges = (numbers: readonly number[]): string => adjacent(numbers).map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ");
