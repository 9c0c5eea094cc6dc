import { useState } from "preact/hooks";

import { poolPath } from "../lib/api";
import { useFetch } from "../lib/useFetch";
import { count } from "../lib/format";
import type { JobDialogProps } from "./JobActionDialog";
import { RequestDialog } from "./RequestDialog";
import { scaleRequest, type Groups } from "./scaleRequest";

/** Changes the number of tasks of a job, or of one of its task groups. */
export function ScaleDialog({ pool, job, endedMessage, onClose }: JobDialogProps) {
  const details = useFetch<{ request?: { tasks?: Partial<Groups[number]>[] } }>(poolPath(pool, "jobs", job.job)).value;
  const groups: Groups = details.value?.request?.tasks?.map((group) => ({ count: group.count ?? 1 })) ?? [{ count: job.tasks }];
  const [chosen, choose] = useState<number | null>(null);
  const group = chosen ?? groups.length - 1;
  const [tasks, setTasks] = useState<string | null>(null);
  const [minimum, setMinimum] = useState("");
  const parsed = scaleRequest(job.job, { group, tasks: tasks ?? String(groups[group]?.count ?? job.tasks), minimum }, groups);
  const unchanged = tasks === null && minimum === "";
  return (
    <RequestDialog pool={pool} title={`Scale ${job.job}`} action="Scale" request={"fields" in parsed && !unchanged ? { kind: "scale", ...parsed.fields } : null} endedMessage={endedMessage} onClose={onClose}>
      {groups.length > 1 && (
        <label class="field">
          <span class="label">Task group</span>
          <select class="input" value={group} onChange={(event) => (choose(Number(event.currentTarget.value)), setTasks(null))}>
            {groups.map((each, at) => (
              <option key={at} value={at}>
                Group {at}, {count(each.count, "task")}
              </option>
            ))}
          </select>
          <span class="hint">After the job has started, only its last group can be scaled.</span>
        </label>
      )}
      <div class="pair">
        <label class="field">
          <span class="label">Tasks</span>
          <input class="input" inputMode="numeric" value={tasks ?? String(groups[group]?.count ?? job.tasks)} onInput={(event) => setTasks(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span class="label">Minimum tasks</span>
          <input class="input" inputMode="numeric" value={minimum} placeholder={`unchanged: ${job.min_tasks}`} onInput={(event) => setMinimum(event.currentTarget.value)} />
        </label>
      </div>
      {"fault" in parsed && (
        <p class="fault" role="alert">
          {parsed.fault}
        </p>
      )}
      {unchanged && <p class="soft">It has {count(job.tasks, "task")} now. New tasks start when resources are free; surplus tasks are evicted.</p>}
    </RequestDialog>
  );
}
