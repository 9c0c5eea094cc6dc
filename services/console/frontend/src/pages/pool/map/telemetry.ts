// What the devices themselves say, as a part of a whole.
import type { NodeCells, NodeTelemetry } from "../../../live/shapes";

export type Measure = "utilisation" | "memory";

/** From 0 to 1; null: nobody said. */
export function level(gpu: number, told: NodeTelemetry | undefined, measure: Measure): number | null {
  const device = told?.devices[gpu];
  if (!device) return null;
  if (measure === "utilisation") return device[0] === null ? null : Math.min(1, Math.max(0, device[0] / 100));
  return device[1] === null || !device[2] ? null : Math.min(1, device[1] / device[2]);
}

/** Mean utilisation in percent of the GPUs that somebody holds and that say it; null: none does. */
export function meanUtilisation(nodes: Iterable<NodeCells>, telemetry: ReadonlyMap<string, NodeTelemetry>): number | null {
  let sum = 0;
  let many = 0;
  for (const node of nodes) {
    const devices = telemetry.get(node.node)?.devices;
    if (!devices) continue;
    node.gpus.forEach((cell, at) => {
      const said = devices[at]?.[0] ?? null;
      if (said !== null && cell[1] !== null) {
        sum += said;
        many += 1;
      }
    });
  }
  return many ? Math.round(sum / many) : null;
}
