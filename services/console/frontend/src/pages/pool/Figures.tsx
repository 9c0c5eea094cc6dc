import type { ComponentChildren } from "preact";

import type { PoolRow } from "../../live/shapes";
import type { Tally } from "./map/selecting";

/** The pool in one line. utilisation: percent; null: nobody has said. */
export function Figures({ row, tally, utilisation }: { row: PoolRow; tally: Tally; utilisation: number | null }) {
  const unusable = tally.states.quarantined + tally.states.unhealthy;
  return (
    <dl class="figures">
      <Figure name="Jobs running" value={row.jobs_running} />
      <Figure name="Waiting" value={row.jobs_waiting} href={`/${encodeURIComponent(row.pool)}/queue`} />
      <Figure name="Leaving" value={row.jobs_leaving} tone={row.jobs_leaving ? "warn" : undefined} />
      {row.jobs_paused > 0 && <Figure name="Paused" value={row.jobs_paused} />}
      <Figure name="GPUs held" value={tally.gpus - tally.states.free - tally.states.reserved - unusable} of={tally.gpus} />
      <Figure name="Free" value={tally.usable} title="Free, on nodes that take work" />
      {tally.states.reserved > 0 && <Figure name="Reserved" value={tally.states.reserved} title="Nobody is on them: kept for a job that is about to start" />}
      <Figure name="Quarantined" value={tally.states.quarantined} tone={tally.states.quarantined ? "bad" : undefined} />
      {tally.states.unhealthy > 0 && <Figure name="Unhealthy" value={tally.states.unhealthy} tone="bad" />}
      <Figure
        name="Utilisation"
        value={utilisation === null ? "–" : `${utilisation} %`}
        title={utilisation === null ? "No telemetry of this pool's GPUs has arrived" : "Mean over the GPUs that somebody holds"}
      />
    </dl>
  );
}

interface FigureProps {
  name: string;
  value: number | string;
  of?: number;
  tone?: "warn" | "bad" | undefined;
  href?: string;
  title?: string;
}

function Figure({ name, value, of, tone, href, title }: FigureProps) {
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
