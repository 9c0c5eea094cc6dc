// Which GPUs an attempt had, for their measurements.
import type { AllocationItem, TaskRow } from "../../api";

/** How long the console keeps telemetry. */
export const KEPT_MS = 24 * 3_600_000;

/** The GPUs of an attempt's allocations, by node. */
export function devicesByNode(allocations: readonly Pick<AllocationItem, "submitted_seq" | "attempt" | "kind" | "node" | "devices">[], submittedSeq: number, attempt: number): Map<string, number[]> {
  return grouped(allocations.filter((each) => each.kind === "allocated" && each.submitted_seq === submittedSeq && each.attempt === attempt).map(({ node, devices }) => [node, devices]));
}

/** The GPUs of tasks, by node. */
export const devicesOfTasks = (tasks: readonly TaskRow[]): Map<string, number[]> => grouped(tasks.map(({ node, devices }) => [node, devices]));

function grouped(pairs: readonly [string, readonly number[]][]): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (const [node, gpus] of pairs) if (gpus.length) found.set(node, [...new Set([...(found.get(node) ?? []), ...gpus])].sort((one, other) => one - other));
  return found;
}
