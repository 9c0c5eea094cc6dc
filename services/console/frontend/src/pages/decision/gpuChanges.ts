// The GPUs that a decision changed on the affected nodes.
import type { Cell, NodeCells } from "../../live/types";
import { cellText } from "../../ui/gpuCellStyle";
import type { PoolExcerpt } from "./types";

export interface GpuChange {
  node: string;
  gpu: number;
  before: string;
  after: string;
}

export function gpuChanges(before: PoolExcerpt | null, after: PoolExcerpt | null): GpuChange[] {
  const found: GpuChange[] = [];
  for (const [name, now] of Object.entries(after?.nodes ?? {})) {
    const was = before?.nodes?.[name];
    now.gpus.forEach((cell, gpu) => {
      const old = was?.gpus[gpu];
      if (!old || !same(old, cell)) found.push({ node: name, gpu, before: old ? cellText(old) : "absent", after: cellText(cell) });
    });
  }
  return found;
}

const same = (left: Cell, right: Cell): boolean => JSON.stringify(left) === JSON.stringify(right);

/** Nodes with changes first, then the others; at most `most`. */
export function affectedNodes(around: PoolExcerpt | null, changed: GpuChange[], most: number): NodeCells[] {
  const touched = new Set(changed.map((each) => each.node));
  const nodes = Object.values(around?.nodes ?? {});
  return [...nodes.filter((node) => touched.has(node.node)), ...nodes.filter((node) => !touched.has(node.node))].slice(0, most);
}
