import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import { zoneName } from "../../lib";
import { useLive } from "../../live";
import { Button, Card, Dropdown, ErrorMessage, Field } from "../../ui";
import { SEGMENT_CHOICES, segmentBounds, type SegmentChoice } from "./logSegment";
import { SimulationResult } from "./SimulationResult";
import { WhatIfRun, type Phase } from "./whatIfRun";

/** Simulates a segment of the log under the edited policy. */
export function PastSimulation({ pool, yaml, disabledReason }: { pool: string; yaml: string; disabledReason: string | null }) {
  const live = useLive(pool);
  const run = useMemo(() => new WhatIfRun(pool), []);
  useEffect(() => () => run.detach(), []);
  const segment = useSignal<SegmentChoice>("week");
  const customRange = useSignal({ from: "", to: "" });
  const chosen = segmentBounds(segment.value, live.time.value, customRange.value);
  const state = run.state.value;
  const busy = state.at === "asking" || state.at === "running";
  return (
    <>
      <Card title="Simulation on the log">
        <div class="stack simulation">
          <p class="soft">
            Replays the jobs, failures and requests of the log under the policy above. The log is only read.
          </p>
          <div class="row simulation-controls">
            <Field label="Segment of the log">
              <Dropdown value={segment.value} options={SEGMENT_CHOICES} disabled={busy} onChange={(next) => (segment.value = next)} />
            </Field>
            {segment.value === "custom" && (
              <>
                <Field label="From">
                  <input class="input" value={customRange.value.from} placeholder="the first record" onInput={(event) => (customRange.value = { ...customRange.value, from: event.currentTarget.value })} />
                </Field>
                <Field label="To">
                  <input class="input" value={customRange.value.to} placeholder="the newest record" onInput={(event) => (customRange.value = { ...customRange.value, to: event.currentTarget.value })} />
                </Field>
              </>
            )}
            <Button primary disabled={busy || disabledReason !== null || "fault" in chosen} onClick={() => "from" in chosen && void run.start(yaml, chosen)}>
              Simulate
            </Button>
            {busy && (
              <Button onClick={() => void run.cancel()} disabled={state.at === "running" && state.stopping}>
                Cancel
              </Button>
            )}
          </div>
          {segment.value === "custom" && <p class="hint soft">A time ({zoneName()}), e.g. 2026-11-01 or 2026-11-01 12:30, or a record number.</p>}
          {"fault" in chosen && <p class="fault">{chosen.fault}</p>}
          {disabledReason && !busy && <p class="soft">{disabledReason}</p>}
          {state.at === "running" && <Progress phase={state.phase} done={state.done} of={state.of} />}
          {state.at === "cancelled" && <p class="soft">Cancelled.</p>}
          {state.at === "failed" && <ErrorMessage error={state.error} />}
        </div>
      </Card>
      {state.at === "done" && <SimulationResult pool={pool} result={state.result} report={state.report} outdated={run.yaml.value !== yaml} />}
    </>
  );
}

function Progress({ phase, done, of }: { phase: Phase; done: number; of: number }) {
  const part = of ? Math.min(1, done / of) : null;
  return (
    <div class="row progress">
      <progress max={1} {...(part === null ? {} : { value: part })} aria-label="Simulation progress" />
      <span class="soft number" role="status">
        {phase === "reading" ? "Reading the log" : "Simulating"}
        {part === null ? "…" : `, ${Math.floor(part * 100)} %`}
      </span>
    </div>
  );
}
