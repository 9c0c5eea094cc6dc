import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import { useLive } from "../../live/live";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { Failure } from "../../ui/Failure";
import { ResultView } from "./ResultView";
import { WhatIfRun, type Doing } from "./run";
import { ends, STRETCHES, type Stretch } from "./stretch";

/** The same past, decided again under the edited policy. */
export function PastPart({ pool, yaml, hindrance }: { pool: string; yaml: string; hindrance: string | null }) {
  const live = useLive(pool);
  const run = useMemo(() => new WhatIfRun(pool), []);
  useEffect(() => () => run.leave(), []);
  const stretch = useSignal<Stretch>("week");
  const own = useSignal({ from: "", to: "" });
  const chosen = ends(stretch.value, live.time.value, own.value);
  const state = run.state.value;
  const busy = state.at === "asking" || state.at === "running";
  return (
    <>
      <Card title="What it would have done">
        <div class="past">
          <p class="soft">
            The same jobs, failures and requests as the log has them, decided again under the policy above. The log is only read.
          </p>
          <div class="past-ask">
            <label class="field">
              <span class="label">Over which stretch</span>
              <select class="input" value={stretch.value} disabled={busy} onChange={(event) => (stretch.value = event.currentTarget.value as Stretch)}>
                {STRETCHES.map(([each, text]) => (
                  <option key={each} value={each}>
                    {text}
                  </option>
                ))}
              </select>
            </label>
            {stretch.value === "own" && (
              <>
                <label class="field">
                  <span class="label">From</span>
                  <input class="input" value={own.value.from} placeholder="the first record" onInput={(event) => (own.value = { ...own.value, from: event.currentTarget.value })} />
                </label>
                <label class="field">
                  <span class="label">To</span>
                  <input class="input" value={own.value.to} placeholder="the newest" onInput={(event) => (own.value = { ...own.value, to: event.currentTarget.value })} />
                </label>
              </>
            )}
            <Button primary disabled={busy || hindrance !== null || "fault" in chosen} onClick={() => "from" in chosen && void run.start(yaml, chosen)}>
              Simulate
            </Button>
            {busy && (
              <Button onClick={() => void run.cancel()} disabled={state.at === "running" && state.stopping}>
                Cancel
              </Button>
            )}
          </div>
          {stretch.value === "own" && <p class="hint soft">A time in UTC, as in 2026-11-01 or 2026-11-01 12:30, or a record's number.</p>}
          {"fault" in chosen && <p class="fault">{chosen.fault}</p>}
          {hindrance && !busy && <p class="soft">{hindrance}</p>}
          {state.at === "running" && <Progress doing={state.doing} done={state.done} of={state.of} />}
          {state.at === "cancelled" && <p class="soft">It was cancelled.</p>}
          {state.at === "failed" && <Failure refusal={state.refusal} />}
        </div>
      </Card>
      {state.at === "done" && <ResultView pool={pool} result={state.result} report={state.report} outdated={run.yaml.value !== yaml} />}
    </>
  );
}

function Progress({ doing, done, of }: { doing: Doing; done: number; of: number }) {
  const part = of ? Math.min(1, done / of) : null;
  return (
    <div class="progress">
      <progress max={1} {...(part === null ? {} : { value: part })} aria-label="The simulation" />
      <span class="soft number" role="status">
        {doing === "reading" ? "Reading the log" : "Simulating"}
        {part === null ? "…" : `, ${Math.floor(part * 100)} %`}
      </span>
    </div>
  );
}
