import type { NodeTelemetryHistory } from "../api";
import { duration } from "../lib";
import { Chart } from "../ui/Chart";
import { meanOf } from "./telemetryHistory";

/** Utilisation and memory of some GPUs of a node. */
export function TelemetryChart({ history, devices }: { history: NodeTelemetryHistory; devices: readonly number[] }) {
  const [busy, memory] = [meanOf(history, devices, "busy"), meanOf(history, devices, "memory")];
  if (!history.times.length) return <p class="soft">No telemetry of this time is known. The console keeps a day of it, from its start on.</p>;
  const lines = [
    ...(busy.some((value) => value !== null) ? [{ name: "utilisation", kind: "area" as const, values: busy }] : []),
    ...(memory.some((value) => value !== null) ? [{ name: "memory in use", kind: "dashed" as const, values: memory }] : []),
  ];
  if (!lines.length) return <p class="soft">The node agent reports neither utilisation nor memory of these GPUs.</p>;
  const last = (values: (number | null)[]): string => (values.at(-1) == null ? "unknown" : `${Math.round(values.at(-1)!)} %`);
  return (
    <>
      <Chart times={history.times.map((seconds) => seconds * 1000)} until={(history.times.at(-1)! + history.step_s) * 1000} series={lines} most={100} unit="%" label={`Utilisation ${last(busy)}, memory ${last(memory)} at the end.`} />
      <p class="soft note">
        {busy.every((value) => value === null) && "Utilisation is not reported for these GPUs. "}In steps of {duration(history.step_s)}.
      </p>
    </>
  );
}
