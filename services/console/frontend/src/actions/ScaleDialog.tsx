import { useState } from "preact/hooks";

import { poolPath } from "../lib/api";
import { useLoad } from "../lib/load";
import { count } from "../lib/words";
import type { OfJob } from "./JobDialog";
import { RequestDialog } from "./RequestDialog";
import { scaling, type Groups } from "./scaling";

/** Another number of tasks. What has several task groups is asked which of them. */
export function ScaleDialog({ pool, job, over, onClose }: OfJob) {
  const details = useLoad<{ request?: { tasks?: Partial<Groups[number]>[] } }>(poolPath(pool, "jobs", job.job)).value;
  const groups: Groups = details.value?.request?.tasks?.map((group) => ({ count: group.count ?? 1 })) ?? [{ count: job.tasks }];
  const [chosen, choose] = useState<number | null>(null);
  const group = chosen ?? groups.length - 1;
  const [tasks, setTasks] = useState<string | null>(null);
  const [least, setLeast] = useState("");
  const found = scaling(job.job, { group, tasks: tasks ?? String(groups[group]?.count ?? job.tasks), least }, groups);
  const same = tasks === null && least === "";
  return (
    <RequestDialog pool={pool} title={`Scale ${job.job}`} verb="Scale" asked={"fields" in found && !same ? { kind: "scale", ...found.fields } : null} over={over} onClose={onClose}>
      {groups.length > 1 && (
        <label class="field">
          <span class="label">Which task group</span>
          <select class="input" value={group} onChange={(event) => (choose(Number(event.currentTarget.value)), setTasks(null))}>
            {groups.map((each, at) => (
              <option key={at} value={at}>
                Group {at}, {count(each.count, "task")}
              </option>
            ))}
          </select>
          <span class="hint">Once the job has started, only its last group can change.</span>
        </label>
      )}
      <div class="pair">
        <label class="field">
          <span class="label">Tasks</span>
          <input class="input" inputMode="numeric" value={tasks ?? String(groups[group]?.count ?? job.tasks)} onInput={(event) => setTasks(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span class="label">Of which must run together</span>
          <input class="input" inputMode="numeric" value={least} placeholder={`as before: ${job.min_tasks}`} onInput={(event) => setLeast(event.currentTarget.value)} />
        </label>
      </div>
      {"fault" in found && (
        <p class="fault" role="alert">
          {found.fault}
        </p>
      )}
      {same && <p class="soft">It has {count(job.tasks, "task")} now. More are added as there is room; surplus ones leave.</p>}
    </RequestDialog>
  );
}
