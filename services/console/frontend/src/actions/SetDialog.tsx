import { useState } from "preact/hooks";

import { useLive } from "../live/live";
import type { OfJob } from "./JobDialog";
import { RequestDialog } from "./RequestDialog";

/** Another priority class, while it waits. */
export function SetDialog({ pool, job, over, onClose }: OfJob) {
  const live = useLive(pool);
  const [chosen, choose] = useState("");
  const others = live.classes.value.filter((row) => row.priority_class !== job.class).sort((one, other) => other.value - one.value);
  return (
    <RequestDialog pool={pool} title={`Set the class of ${job.job}`} verb="Set the class" asked={chosen ? { kind: "set", job: job.job, priority_class: chosen } : null} over={over} onClose={onClose}>
      <label class="field">
        <span class="label">Priority class</span>
        <select class="input" value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
          <option value="">
            {job.class} ({job.priority}), as now
          </option>
          {others.map((row) => (
            <option key={row.priority_class} value={row.priority_class}>
              {row.priority_class} ({row.value}
              {row.preemptible ? "" : ", not preemptible"})
            </option>
          ))}
        </select>
        <span class="hint">Higher goes first in the queue, and may displace lower ones where the policy allows it.</span>
      </label>
    </RequestDialog>
  );
}
