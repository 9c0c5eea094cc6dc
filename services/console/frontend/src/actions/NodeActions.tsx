import type { NodeCells } from "../live/shapes";

/** Drain and undrain, for operators. */
export function NodeActions(_: { pool: string; node: NodeCells }) {
  return null;
}
