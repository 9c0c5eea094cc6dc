// What the devices themselves say, as a part of a whole.
import type { NodeCells, NodeTelemetry } from "../../../live/shapes";

/** Bytes of memory of one GPU, where its model says so, as in `H100-80GB` or `A100 40GB`. */
export function memoryOf(model: string): number | null {
  const found = /(\d+)\s*G(i?)B/i.exec(model);
  return found ? Number(found[1]) * 1024 ** 3 : null;
}

/** The most that any GPU uses, for models that do not say how much there is. */
export function mostUsed(telemetry: Iterable<NodeTelemetry>): number {
  let most = 0;
  for (const row of telemetry) for (const device of row.devices) most = Math.max(most, device[1] ?? 0);
  return most;
}

export type Measure = "utilisation" | "memory";

/** From 0 to 1; null: nobody said. */
export function level(node: NodeCells, gpu: number, told: NodeTelemetry | undefined, measure: Measure, most: number): number | null {
  const device = told?.devices[gpu];
  if (!device) return null;
  if (measure === "utilisation") return device[0] === null ? null : Math.min(1, Math.max(0, device[0] / 100));
  const whole = memoryOf(node.model) ?? most;
  return device[1] === null || whole <= 0 ? null : Math.min(1, device[1] / whole);
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
