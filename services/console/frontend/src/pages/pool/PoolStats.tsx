import type { PoolRow } from "../../api";
import { KeyFigure, pagePath } from "../../ui";
import type { Tally } from "./map/gpuFilter";

/** Key figures of the pool. utilisation: percent; null: no telemetry. */
export function PoolStats({ row, tally, utilisation }: { row: PoolRow; tally: Tally; utilisation: number | null }) {
  const unusable = tally.states.quarantined + tally.states.unhealthy;
  return (
    <dl class="row figures">
      <KeyFigure name="Jobs running" value={row.jobs_running} />
      <KeyFigure name="Jobs pending" value={row.jobs_pending} href={pagePath(row.pool, ["queue"])} />
      <KeyFigure name="Jobs evicting" value={row.jobs_evicting} tone={row.jobs_evicting ? "warn" : undefined} />
      {row.jobs_paused > 0 && <KeyFigure name="Jobs paused" value={row.jobs_paused} />}
      <KeyFigure name="GPUs allocated" value={tally.gpus - tally.states.free - tally.states.reserved - unusable} rest={`of ${tally.gpus.toLocaleString("en")}`} />
      <KeyFigure name="Free" value={tally.usable} title="Free GPUs on schedulable nodes" />
      {tally.states.reserved > 0 && <KeyFigure name="Reserved" value={tally.states.reserved} title="Not in use; reserved for a job that starts soon" />}
      <KeyFigure name="Quarantined" value={tally.states.quarantined} tone={tally.states.quarantined ? "bad" : undefined} />
      {tally.states.unhealthy > 0 && <KeyFigure name="Unhealthy" value={tally.states.unhealthy} tone="bad" />}
      <KeyFigure
        name="Utilisation"
        value={utilisation === null ? "–" : `${utilisation} %`}
        title={utilisation === null ? "No telemetry of this pool's GPUs received" : "Mean over the allocated GPUs"}
      />
    </dl>
  );
}
