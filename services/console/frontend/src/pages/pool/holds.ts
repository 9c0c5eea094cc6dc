// Who is on a node, each job once.
import type { NodeCells } from "../../live/shapes";
import { jobOfTask } from "./map/selecting";

/** gpus: `0–3, 6`; then: who has them promised next. */
export interface Hold {
  job: string;
  gpus: string;
  then: string | null;
}

export function holdsOn(node: NodeCells): Hold[] {
  const found = new Map<string, { numbers: number[]; then: string | null }>();
  node.gpus.forEach(([, holder, promised, sharers], at) => {
    const names = holder !== null && sharers.length === 0 ? [holder] : [...new Set(sharers.map(jobOfTask))];
    for (const name of names) {
      const hold = found.get(name) ?? { numbers: [], then: null };
      hold.numbers.push(at);
      hold.then = promised !== name ? (promised ?? hold.then) : hold.then;
      found.set(name, hold);
    }
  });
  return [...found].map(([job, { numbers, then }]) => ({ job, gpus: ranges(numbers), then }));
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
