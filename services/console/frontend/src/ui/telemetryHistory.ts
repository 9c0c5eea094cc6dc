import { get, poolPath } from "../lib/api";

/** `/api/pools/{pool}/nodes/{node}/telemetry`: percent by device and time; null: unknown. */
export interface NodeHistory {
  step_s: number;
  times: number[];
  busy: (number | null)[][];
  memory: (number | null)[][];
}

export const loadNodeHistory = (pool: string, node: string, signal?: AbortSignal): Promise<NodeHistory> => get(poolPath(pool, "nodes", node, "telemetry"), signal);

/** The part of a history in which these devices are wanted: from `since` on, ms; the mean over the devices. */
export function meanOf(history: NodeHistory, devices: readonly number[], measure: "busy" | "memory", since: number): (number | null)[] {
  return history.times.flatMap((time, at) => {
    if (time * 1000 < since) return [];
    const values = devices.map((device) => history[measure][device]?.[at]).filter((value): value is number => value !== null && value !== undefined);
    return [values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null];
  });
}

export const timesOf = (history: NodeHistory, since: number): number[] => history.times.filter((time) => time * 1000 >= since);
