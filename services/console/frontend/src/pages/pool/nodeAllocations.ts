// The jobs on a node's GPUs, each once.
import type { LiveNode } from "../../api";
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

/** `0–3, 6` of ascending numbers. */
export function ranges(numbers: readonly number[]): string {
  const parts: [number, number][] = [];
  for (const at of numbers) {
    const last = parts.at(-1);
    if (last && last[1] === at - 1) last[1] = at;
    else parts.push([at, at]);
  }
  return parts.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ");
}
