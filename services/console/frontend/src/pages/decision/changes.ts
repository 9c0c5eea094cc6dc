// What a decision changed on the GPUs of the nodes concerned.
import type { Cell, NodeCells } from "../../live/shapes";
import { cellWords } from "../../ui/cellLook";
import type { Around } from "./shapes";

export interface Changed {
  node: string;
  gpu: number;
  before: string;
  after: string;
}

export function changes(before: Around | null, after: Around | null): Changed[] {
  const found: Changed[] = [];
  for (const [name, now] of Object.entries(after?.nodes ?? {})) {
    const was = before?.nodes?.[name];
    now.gpus.forEach((cell, gpu) => {
      const old = was?.gpus[gpu];
      if (!old || !same(old, cell)) found.push({ node: name, gpu, before: old ? cellWords(old) : "not there", after: cellWords(cell) });
    });
  }
  return found;
}

const same = (left: Cell, right: Cell): boolean => JSON.stringify(left) === JSON.stringify(right);

/** The nodes with a change, and the others after them; of many only the first. */
export function concerned(around: Around | null, changed: Changed[], most: number): NodeCells[] {
  const touched = new Set(changed.map((each) => each.node));
  const nodes = Object.values(around?.nodes ?? {});
  return [...nodes.filter((node) => touched.has(node.node)), ...nodes.filter((node) => !touched.has(node.node))].slice(0, most);
}
