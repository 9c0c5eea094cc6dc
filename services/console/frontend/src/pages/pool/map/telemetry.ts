// Utilisation and memory use of GPUs, from telemetry.
import type { LiveNode, NodeTelemetryRow } from "../../../api";

export type Measure = "utilisation" | "memory";

/** A fraction from 0 to 1; null: unknown. */
export function level(gpu: number, measured: NodeTelemetryRow | undefined, measure: Measure): number | null {
  const device = measured?.devices[gpu];
  if (!device) return null;
  if (measure === "utilisation") return device[0] === null ? null : Math.min(1, Math.max(0, device[0] / 100));
  return device[1] === null || !device[2] ? null : Math.min(1, device[1] / device[2]);
}

/** Mean utilisation in percent of the allocated GPUs with telemetry; null: none. */
export function meanUtilisation(nodes: Iterable<LiveNode>, telemetry: ReadonlyMap<string, NodeTelemetryRow>): number | null {
  let sum = 0;
  let many = 0;
  for (const node of nodes) {
    const devices = telemetry.get(node.node)?.devices;
    if (!devices) continue;
    node.devices.forEach((cell, at) => {
      const value = devices[at]?.[0] ?? null;
      if (value !== null && cell[1] !== null) {
        sum += value;
        many += 1;
      }
    });
  }
  return many ? Math.round(sum / many) : null;
}
