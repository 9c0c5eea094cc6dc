import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { poolPath, useFetch, type JobPage, type LiveJob, type LiveNode } from "../api";
import { count } from "../lib";
import { useLive } from "../live";
import { classOption, highestFirst } from "../shared/priorityClasses";
import { Dropdown, Field, Options } from "../ui";
import { JOB_ACTIONS, type JobAction } from "./allowedActions";
import { deadline, MODES, type Mode } from "./drainModes";
import { RequestDialog } from "./RequestDialog";
import { scaleRequest } from "./scaleRequest";

/** What a dialog asks for: input fields, and the fields of the request; null: the input is incomplete. */
interface Form {
  fields?: ComponentChildren;
  request: Record<string, unknown> | null;
}

const JOB_FORMS: Partial<Record<JobAction, (pool: string, job: LiveJob) => Form>> = { migrate: useMigrateForm, scale: useScaleForm, "set-priority-class": useClassForm };
const NO_FORM = (): Form => ({ request: {} });

/** endedMessage: why no request is possible any more, as the job has ended; null: it has not. */
export function JobActionDialog({ pool, job, action, endedMessage, onClose }: { pool: string; job: LiveJob; action: JobAction; endedMessage: string | null; onClose: () => void }) {
  const { name, title = name, submit = name, danger, reason } = JOB_ACTIONS[action];
  const { request, fields } = (JOB_FORMS[action] ?? NO_FORM)(pool, job);
  return (
    <RequestDialog pool={pool} title={`${title} ${job.job}`} action={submit} danger={danger} reason={reason} request={request && { kind: action, job: job.job, ...request }} endedMessage={endedMessage} onClose={onClose}>
      {fields}
    </RequestDialog>
  );
}

/** To any node with free resources, or to the chosen one. */
function useMigrateForm(pool: string, job: LiveJob): Form {
  const live = useLive(pool);
  const [node, choose] = useState("");
  void live.nodesVersion.value;
  const takes = [...live.nodes.values()].filter((row) => row.state === "ready" && row.drain === null && !job.nodes.includes(row.node)).map((row) => row.node);
  const known = node === "" || live.nodes.has(node);
  const fields = (
    <Field label="Target node" fault={known ? null : `Node ${node} does not exist.`} hint={`It runs on ${job.nodes.join(", ") || "no node"} now. Resources are reserved first; then it saves a checkpoint and restarts there.`}>
      <input class="input" list="migrate-nodes" value={node} placeholder="any node with free resources" onInput={(event) => choose(event.currentTarget.value.trim())} />
      <datalist id="migrate-nodes">
        <Options of={takes.slice(0, 500)} />
      </datalist>
    </Field>
  );
  return { fields, request: known ? { node } : null };
}

/** The number of tasks of a job, or of one of its task groups. */
function useScaleForm(pool: string, job: LiveJob): Form {
  const details = useFetch<JobPage>(poolPath(pool, "jobs", job.job)).value.value;
  const tasksOf = details?.request.tasks as { count?: number }[] | undefined;
  const groups = tasksOf?.map((group) => ({ count: group.count ?? 1 })) ?? [{ count: job.tasks }];
  const [chosen, choose] = useState<number | null>(null);
  const group = chosen ?? groups.length - 1;
  const [typed, setTyped] = useState<string | null>(null);
  const [minimum, setMinimum] = useState("");
  const tasks = typed ?? String(groups[group]?.count ?? job.tasks);
  const parsed = scaleRequest({ group, tasks, minimum }, groups);
  const unchanged = typed === null && minimum === "";
  const fields = (
    <>
      {groups.length > 1 && (
        <Field label="Task group" hint="After the job has started, only its last group can be scaled.">
          <Dropdown value={String(group)} options={groups.map((each, at): [string, string] => [String(at), `Group ${at}, ${count(each.count, "task")}`])} onChange={(next) => (choose(Number(next)), setTyped(null))} />
        </Field>
      )}
      <div class="pair">
        <Field label="Tasks">
          <input class="input" inputMode="numeric" value={tasks} onInput={(event) => setTyped(event.currentTarget.value)} />
        </Field>
        <Field label="Minimum tasks">
          <input class="input" inputMode="numeric" value={minimum} placeholder={`unchanged: ${job.min_tasks}`} onInput={(event) => setMinimum(event.currentTarget.value)} />
        </Field>
      </div>
      {"fault" in parsed && (
        <p class="fault" role="alert">
          {parsed.fault}
        </p>
      )}
      {unchanged && <p class="soft">It has {count(job.tasks, "task")} now. New tasks start when resources are free; surplus tasks are evicted.</p>}
    </>
  );
  return { fields, request: "fields" in parsed && !unchanged ? parsed.fields : null };
}

/** The priority class of a pending or paused job. */
function useClassForm(pool: string, job: LiveJob): Form {
  const live = useLive(pool);
  const [chosen, choose] = useState("");
  const others = highestFirst(live.classes.value).filter((row) => row.priority_class !== job.priority_class);
  const fields = (
    <Field label="Priority class" hint="A higher class is first in the queue, and may preempt lower ones where the policy allows it.">
      <Dropdown value={chosen} options={[["", `${job.priority_class} (${job.priority}), current`], ...others.map(classOption)]} onChange={choose} />
    </Field>
  );
  return { fields, request: chosen ? { priority_class: chosen } : null };
}

export function DrainDialog({ pool, node, onClose }: { pool: string; node: LiveNode; onClose: () => void }) {
  const [mode, choose] = useState<Mode>("graceful");
  const [within, setWithin] = useState("");
  const until = deadline(within);
  return (
    <RequestDialog pool={pool} title={`Drain ${node.node}`} action="Drain" danger reason request={until === null ? null : { kind: "drain", node: node.node, mode, deadline: until }} onClose={onClose}>
      <fieldset class="stack modes">
        <legend class="label">Mode</legend>
        {MODES.map((each) => (
          <label key={each.mode}>
            <input type="radio" name="drain-mode" checked={mode === each.mode} onChange={() => choose(each.mode)} />
            <span>
              <strong>{each.name}</strong> <span class="soft">{each.means}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <Field label="Deadline" fault={until === null ? "Enter a duration, e.g. 30m, 2h or 1d." : null} hint="A duration from now, e.g. 30m, 2h or 1d. Empty: no deadline; the drain completes when its jobs have ended.">
        <input class="input" value={within} placeholder="none" onInput={(event) => setWithin(event.currentTarget.value)} />
      </Field>
    </RequestDialog>
  );
}

export function UndrainDialog({ pool, node, onClose }: { pool: string; node: LiveNode; onClose: () => void }) {
  return <RequestDialog pool={pool} title={`Undrain ${node.node}`} action="Undrain" reason request={{ kind: "undrain", node: node.node }} onClose={onClose} />;
}
