// The GPUs that a decision changed on the affected nodes.
import type { Cell, LiveNode, PoolExcerpt } from "../api";
import { cellText } from "./gpuCellStyle";

interface GpuChange {
  node: string;
  gpu: number;
  before: string;
  after: string;
}

/** The nodes at one point in time. */
type Nodes = Partial<Pick<PoolExcerpt, "nodes">> | null;

export function gpuChanges(before: Nodes, after: Nodes): GpuChange[] {
  const found: GpuChange[] = [];
  for (const [name, now] of Object.entries(after?.nodes ?? {})) {
    const was = before?.nodes?.[name];
    now.devices.forEach((cell, gpu) => {
      const old = was?.devices[gpu];
      if (!old || !same(old, cell)) found.push({ node: name, gpu, before: old ? cellText(old) : "absent", after: cellText(cell) });
    });
  }
  return found;
}

const same = (left: Cell, right: Cell): boolean => JSON.stringify(left) === JSON.stringify(right);

/** Nodes with changes first, then the others; at most `most`. */
export function affectedNodes(around: Nodes, changed: GpuChange[], most: number): LiveNode[] {
  const touched = new Set(changed.map((each) => each.node));
  const nodes = Object.values(around?.nodes ?? {});
  return [...nodes.filter((node) => touched.has(node.node)), ...nodes.filter((node) => !touched.has(node.node))].slice(0, most);
}
