import type { ComponentChildren } from "preact";

import type { PoolRow } from "../../live/types";
import type { Tally } from "./map/gpuFilter";

/** Key figures of the pool. utilisation: percent; null: no telemetry. */
export function PoolStats({ row, tally, utilisation }: { row: PoolRow; tally: Tally; utilisation: number | null }) {
  const unusable = tally.states.quarantined + tally.states.unhealthy;
  return (
    <dl class="figures">
      <Stat name="Jobs running" value={row.jobs_running} />
      <Stat name="Jobs pending" value={row.jobs_pending} href={`/${encodeURIComponent(row.pool)}/queue`} />
      <Stat name="Jobs evicting" value={row.jobs_evicting} tone={row.jobs_evicting ? "warn" : undefined} />
      {row.jobs_paused > 0 && <Stat name="Jobs paused" value={row.jobs_paused} />}
      <Stat name="GPUs allocated" value={tally.gpus - tally.states.free - tally.states.reserved - unusable} of={tally.gpus} />
      <Stat name="Free" value={tally.usable} title="Free GPUs on schedulable nodes" />
      {tally.states.reserved > 0 && <Stat name="Reserved" value={tally.states.reserved} title="Not in use; reserved for a job that starts soon" />}
      <Stat name="Quarantined" value={tally.states.quarantined} tone={tally.states.quarantined ? "bad" : undefined} />
      {tally.states.unhealthy > 0 && <Stat name="Unhealthy" value={tally.states.unhealthy} tone="bad" />}
      <Stat
        name="Utilisation"
        value={utilisation === null ? "–" : `${utilisation} %`}
        title={utilisation === null ? "No telemetry of this pool's GPUs received" : "Mean over the allocated GPUs"}
      />
    </dl>
  );
}

interface StatProps {
  name: string;
  value: number | string;
  of?: number;
  tone?: "warn" | "bad" | undefined;
  href?: string;
  title?: string;
}

function Stat({ name, value, of, tone, href, title }: StatProps) {
  const text: ComponentChildren = (
    <>
      {typeof value === "number" ? value.toLocaleString("en") : value}
      {of !== undefined && <small> of {of.toLocaleString("en")}</small>}
    </>
  );
  return (
    <div class="figure" data-tone={tone} title={title}>
      <dt>{name}</dt>
      <dd class="number">{href ? <a href={href}>{text}</a> : text}</dd>
    </div>
  );
}
