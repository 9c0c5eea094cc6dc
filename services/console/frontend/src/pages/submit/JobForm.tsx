import { useState } from "preact/hooks";

import { permissionError } from "../../actions/allowedActions";
import { currentUser, useLive } from "../../live";
import { classOption, highestFirst } from "../../shared/priorityClasses";
import { CheckBox, Dropdown } from "../../ui";
import { FieldRow, FoldedFields, PairsInput, SelectInput, TextInput, type FormProps } from "./FormFields";
import { gpuKind, TOPOLOGY, type GpuKind } from "./jobFields";

/** The job as a form; less common fields are collapsed. */
export function JobForm({ pool, of }: { pool: string; of: FormProps }) {
  return (
    <form class="stack job-form" onSubmit={(event) => event.preventDefault()}>
      <div class="grid">
        <Command of={of} />
        <TextInput of={of} name="name" label="Name" placeholder="generated from the command" hint="Lowercase letters, digits, dashes and dots." />
        <Project pool={pool} of={of} />
        <Class pool={pool} of={of} />
        <Gpus pool={pool} of={of} />
        <TextInput of={of} name="cpu" label="CPU per task" placeholder="cores, e.g. 8 or 500m" />
        <TextInput of={of} name="memory" label="Memory per task" placeholder="e.g. 64GiB" />
        <TextInput of={of} name="tasks" label="Tasks" placeholder="1" numeric hint="Gang-scheduled: all start together, or none." />
        <TextInput of={of} name="min_tasks" label="Minimum tasks" placeholder="all" numeric hint="The others start and stop with the free resources." />
        <TextInput of={of} name="run_time_limit" label="Run time limit" placeholder="none, or e.g. 12h" />
        <TextInput of={of} name="after" label="After" placeholder="e.g. prep-1, sweep, eval-*:ended" hint="Jobs that must succeed first, or only end (:ended); an array by its name, yours by a pattern." />
        <TextInput of={of} name="begin" label="Not before" placeholder="at once" hint="As 2026-12-24T08:00+01:00; without a time zone: UTC." />
      </div>
      <PlacementFields of={of} />
      <PreemptionFields of={of} />
      <EnvironmentFields of={of} />
    </form>
  );
}

function Command({ of }: { of: FormProps }) {
  const { command, argv } = of.fields;
  return (
    <FieldRow
      label="Command"
      wide
      errors={of.errors.get("command")}
      hint={
        <CheckBox checked={argv} onChange={(on) => of.set({ argv: on })}>
          Without a shell: program and arguments, one per line
        </CheckBox>
      }
    >
      {(ids) => (
        <textarea {...ids} class="input mono" rows={Math.min(10, Math.max(2, command.split("\n").length))} spellcheck={false} placeholder={argv ? "python\ntrain.py" : "python train.py"} value={command} onInput={(event) => of.set({ command: event.currentTarget.value })} />
      )}
    </FieldRow>
  );
}

function Project({ pool, of }: { pool: string; of: FormProps }) {
  const live = useLive(pool);
  void live.projectsVersion.value;
  if (!live.projects.size) return <TextInput of={of} name="project" label="Project" placeholder="none" hint="Optional: the policy defines no projects." />;
  const mine = [...live.projects.values()].filter((row) => permissionError(currentUser.value, row.project, live.projects) === null);
  const options = mine.map((row): [string, string] => [row.project, `${"\u2003".repeat(row.depth)}${row.project}`]);
  const none = mine.length ? "Select a project" : "You may not submit to any project";
  return <SelectInput of={of} name="project" label="Project" options={[["", none], ...options]} hint="The project whose quota is used." />;
}

function Class({ pool, of }: { pool: string; of: FormProps }) {
  const live = useLive(pool);
  const rows = highestFirst(live.classes.value);
  const usual = rows.find((row) => row.is_default);
  return <SelectInput of={of} name="class" label="Priority class" options={[["", usual ? `${usual.priority_class}, the default` : "the default"], ...rows.map(classOption)]} hint="A higher class is scheduled first and may preempt lower ones." />;
}

const KINDS: [GpuKind, string][] = [
  ["whole", "Whole GPUs"],
  ["fraction", "Fraction of a GPU"],
  ["memory", "GPU memory"],
  ["mig", "MIG device"],
];
const KIND_FIELDS = { whole: "gpus", fraction: "fraction", memory: "gpu_memory", mig: "mig" } as const;
const EXAMPLES = { whole: "none", fraction: "e.g. 0.5", memory: "e.g. 16GiB", mig: "e.g. 3g.40gb" };

function Gpus({ pool, of }: { pool: string; of: FormProps }) {
  const live = useLive(pool);
  const [chosen, choose] = useState<GpuKind | null>(null);
  const kind = gpuKind(of.fields) === "whole" ? (chosen ?? "whole") : gpuKind(of.fields);
  const name = KIND_FIELDS[kind];
  const row = live.row.value;
  const become = (next: GpuKind) => {
    choose(next);
    of.set({ gpus: "", fraction: "", gpu_memory: "", gpu_devices: "", mig: "" });
  };
  return (
    <>
      <FieldRow label="GPUs per task" errors={of.errors.get(name)} hint={row && `${row.gpus_free} of ${row.gpus} GPUs free now.`}>
        {(ids) => (
          <div class="joined">
            <Dropdown aria-label="Kind of GPU request" value={kind} options={KINDS} onChange={become} />
            <input {...ids} class="input" value={of.fields[name]} placeholder={EXAMPLES[kind]} inputMode="decimal" autocomplete="off" onInput={(event) => of.set({ [name]: event.currentTarget.value })} />
          </div>
        )}
      </FieldRow>
      {kind !== "whole" && <TextInput of={of} name="gpu_devices" label={kind === "mig" ? "Number of MIG devices" : "Number of GPUs"} placeholder="1" numeric hint={kind === "mig" ? "Per task." : "The same share of each."} />}
    </>
  );
}

function PlacementFields({ of }: { of: FormProps }) {
  const labels = { topology: "Topology", required: "Required level", preferred: "Preferred level" };
  const hints = { topology: "Name in the policy, e.g. racks.", required: "A level, e.g. rack: all tasks within one, else the job stays pending.", preferred: "A level: all tasks within one if possible." };
  return (
    <FoldedFields of={of} title="Placement" what="GPU model, nodes, topology" names={["gpu_model", "nodes", "node_labels", "topology", "pack", "placement"]}>
      <TextInput of={of} name="gpu_model" label="GPU models" placeholder="any" hint="One or more, separated by commas." />
      <TextInput of={of} name="nodes" label="Nodes" placeholder="any" hint="Only these, separated by commas." />
      {TOPOLOGY.map((each) => (
        <FieldRow key={each} label={labels[each]} hint={hints[each]} errors={of.errors.get("topology")}>
          {(ids) => <input {...ids} class="input" value={of.fields.topology[each]} spellcheck={false} onInput={(event) => of.set({ topology: { ...of.fields.topology, [each]: event.currentTarget.value } })} />}
        </FieldRow>
      ))}
      <SelectInput of={of} name="pack" label="Packing" options={[["", "policy default"], ["binpack", "binpack: fill nodes"], ["spread", "spread: across nodes"]]} />
      <SelectInput of={of} name="placement" label="NVLink" options={[["", "policy default"], ["prefer nvlink", "prefer GPUs that NVLink connects"], ["any", "any GPUs"]]} />
      <PairsInput of={of} name="node_labels" label="Node labels" names="label" values="value" hint="Only nodes with all of these labels." />
    </FoldedFields>
  );
}

function PreemptionFields({ of }: { of: FormProps }) {
  return (
    <FoldedFields
      of={of}
      title="Checkpoints and preemption"
      what="grace period, behaviour on eviction and failure"
      names={["preemptible", "grace", "kill_after", "on_eviction", "on_failure", "max_failures", "restart_backoff", "preemption_delay", "elastic"]}
    >
      <p class="hint" data-wide>
        A job that saves checkpoints with <code>bailiff_job</code> loses no work when it is evicted. Checkpoints are local to the node; to resume on another node, use a shared directory: begin the command with{" "}
        <code>BAILIFF_CHECKPOINT_DIR=/shared/$BAILIFF_JOB_ID</code>.
      </p>
      <TextInput of={of} name="grace" label="Grace period" placeholder="class default" hint="From the eviction notice to KILL; long enough for a checkpoint, e.g. 90s." />
      <TextInput of={of} name="kill_after" label="Kill after" placeholder="class default" hint="The part of the grace period from TERM to KILL." />
      <SelectInput of={of} name="preemptible" label="Preemptible" options={[["", "class default"], ["true", "yes"], ["false", "no"]]} />
      <SelectInput of={of} name="on_eviction" label="On eviction" options={[["", "requeue (default)"], ["requeue", "requeue"], ["end", "end"]]} />
      <SelectInput of={of} name="on_failure" label="On task failure" options={[["", "restart (default)"], ["restart", "restart"], ["end", "end"]]} />
      <TextInput of={of} name="max_failures" label="Maximum failures" placeholder="policy default" numeric hint="Maximum number of retries." />
      <TextInput of={of} name="restart_backoff" label="Restart backoff" placeholder="policy default" hint="Doubles with each failure." />
      <TextInput of={of} name="preemption_delay" label="Preemption delay" placeholder="policy default" hint="Until then it only uses free resources." />
      <SelectInput of={of} name="elastic" label="Elastic scaling" options={[["", "policy default"], ["live", "while running"], ["restart", "by restarting"]]} />
    </FoldedFields>
  );
}

function EnvironmentFields({ of }: { of: FormProps }) {
  return (
    <FoldedFields of={of} title="Environment" what="variables, secrets, directory, image, labels" names={["env", "secrets", "working_dir", "image", "labels", "sim_run_for"]}>
      <PairsInput of={of} name="env" label="Environment variables" names="variable" values="value" hint="Stored in Kafka unencrypted: do not use for secrets." />
      <PairsInput of={of} name="secrets" label="Secrets" names="variable" values="name of the secret" hint="References by name; the node agent inserts the values." />
      <TextInput of={of} name="working_dir" label="Working directory" placeholder="the agent's" />
      <TextInput of={of} name="image" label="Container image" placeholder="none: runs as a process" />
      <TextInput of={of} name="sim_run_for" label="Simulated run time" placeholder="none, or e.g. 5m" hint="Nothing is executed; resources are allocated and released." />
      <PairsInput of={of} name="labels" label="Labels" names="label" values="value" hint="Recorded in the audit log; protections can select by them." />
    </FoldedFields>
  );
}
