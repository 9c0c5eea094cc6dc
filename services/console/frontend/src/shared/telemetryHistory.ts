import { get, poolPath, type NodeTelemetryHistory } from "../api";

/** since: ms; null: the last hour. The console keeps an hour in steps of ten seconds and a day in steps of ten minutes. */
export const loadNodeHistory = (pool: string, node: string, since: number | null, signal?: AbortSignal): Promise<NodeTelemetryHistory> =>
  get(`${poolPath(pool, "nodes", node, "telemetry")}${since === null ? "" : `?since=${Math.max(0, Math.floor(since / 1000))}`}`, signal);

/** The part of a history between two times, ms; a step that begins before `from` and reaches into it is in it. */
export function partOf(history: NodeTelemetryHistory, from: number, to: number): NodeTelemetryHistory {
  const inside = history.times.flatMap((time, at) => ((time + history.step_s) * 1000 > from && time * 1000 <= to ? [at] : []));
  const cut = (rows: (number | null)[][]): (number | null)[][] => rows.map((row) => inside.map((at) => row[at] ?? null));
  return { ...history, times: inside.map((at) => history.times[at]!), busy: cut(history.busy), memory: cut(history.memory) };
}

/** The mean over the devices, by time. */
export function meanOf(history: NodeTelemetryHistory, devices: readonly number[], measure: "busy" | "memory"): (number | null)[] {
  return history.times.map((_, at) => {
    const values = devices.map((device) => history[measure][device]?.[at]).filter((value): value is number => value !== null && value !== undefined);
    return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
  });
}
