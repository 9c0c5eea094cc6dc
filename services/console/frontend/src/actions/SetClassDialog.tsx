import { useState } from "preact/hooks";

import { useLive } from "../live/livePool";
import type { JobDialogProps } from "./JobActionDialog";
import { RequestDialog } from "./RequestDialog";

/** Changes the priority class of a pending or paused job. */
export function SetClassDialog({ pool, job, endedMessage, onClose }: JobDialogProps) {
  const live = useLive(pool);
  const [chosen, choose] = useState("");
  const others = live.classes.value.filter((row) => row.priority_class !== job.priority_class).sort((one, other) => other.value - one.value);
  return (
    <RequestDialog pool={pool} title={`Set the class of ${job.job}`} action="Set class" request={chosen ? { kind: "set", job: job.job, priority_class: chosen } : null} endedMessage={endedMessage} onClose={onClose}>
      <label class="field">
        <span class="label">Priority class</span>
        <select class="input" value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
          <option value="">
            {job.priority_class} ({job.priority}), current
          </option>
          {others.map((row) => (
            <option key={row.priority_class} value={row.priority_class}>
              {row.priority_class} ({row.value}
              {row.preemptible ? "" : ", not preemptible"})
            </option>
          ))}
        </select>
        <span class="hint">A higher class is first in the queue, and may preempt lower ones where the policy allows it.</span>
      </label>
    </RequestDialog>
  );
}
