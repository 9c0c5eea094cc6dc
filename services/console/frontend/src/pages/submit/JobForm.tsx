import { useState } from "preact/hooks";

import { notAllowed } from "../../actions/jobRules";
import { useLive } from "../../live/live";
import { me } from "../../shell/me";
import { Fold, Pairs, Row, Select, Text, type OfForm } from "./Fields";
import { gpuKind, TOPOLOGY, type GpuKind } from "./fields";

/** A job as fields: what most need first, the rest folded. */
export function JobForm({ pool, of }: { pool: string; of: OfForm }) {
  return (
    <form class="job-form" onSubmit={(event) => event.preventDefault()}>
      <div class="grid">
        <Command of={of} />
        <Text of={of} name="name" label="Name" placeholder="made from the command" hint="Lower case letters, digits, dashes and dots." />
        <Project pool={pool} of={of} />
        <Class pool={pool} of={of} />
        <Gpus pool={pool} of={of} />
        <Text of={of} name="cpu" label="CPU per task" placeholder="cores, as in 8 or 500m" />
        <Text of={of} name="memory" label="Memory per task" placeholder="as in 64GiB" />
        <Text of={of} name="tasks" label="Tasks" placeholder="1" numeric hint="They start together, or not at all." />
        <Text of={of} name="min_tasks" label="Of which must run together" placeholder="all of them" numeric hint="The others come and go with the room there is." />
        <Text of={of} name="run_time_limit" label="Run time limit" placeholder="none, or as in 12h" />
      </div>
      <Where of={of} />
      <Leaving of={of} />
      <Surroundings of={of} />
    </form>
  );
}

function Command({ of }: { of: OfForm }) {
  const { command, argv } = of.fields;
  return (
    <Row
      label="Command"
      wide
      faults={of.faults.get("command")}
      hint={
        <label class="check">
          <input type="checkbox" checked={argv} onChange={(event) => of.set({ argv: event.currentTarget.checked })} /> Without a shell: a program and its arguments, one a line
        </label>
      }
    >
      {(ids) => (
        <textarea {...ids} class="input mono" rows={Math.min(10, Math.max(2, command.split("\n").length))} spellcheck={false} placeholder={argv ? "python\ntrain.py" : "python train.py"} value={command} onInput={(event) => of.set({ command: event.currentTarget.value })} />
      )}
    </Row>
  );
}

function Project({ pool, of }: { pool: string; of: OfForm }) {
  const live = useLive(pool);
  void live.projectsAt.value;
  if (!live.projects.size) return <Text of={of} name="project" label="Project" placeholder="none" hint="The policy has no projects: it may be left out." />;
  const mine = [...live.projects.values()].filter((row) => notAllowed(me.value, row.project, live.projects) === null);
  const options = mine.map((row): [string, string] => [row.project, `${"\u2003".repeat(row.depth)}${row.project}`]);
  const none = mine.length ? "Choose a project" : "You may submit to none";
  return <Select of={of} name="project" label="Project" options={[["", none], ...options]} hint="Whose quota it uses." />;
}

function Class({ pool, of }: { pool: string; of: OfForm }) {
  const live = useLive(pool);
  const rows = [...live.classes.value].sort((one, other) => other.value - one.value);
  const usual = rows.find((row) => row.is_default);
  const options = rows.map((row): [string, string] => [row.priority_class, `${row.priority_class} (${row.value}${row.preemptible ? "" : ", not preemptible"})`]);
  return <Select of={of} name="class" label="Priority class" options={[["", usual ? `${usual.priority_class}, the default` : "the default"], ...options]} hint="Higher goes first, and may displace lower." />;
}

const KINDS: [GpuKind, string][] = [
  ["whole", "Whole GPUs"],
  ["fraction", "A part of a GPU"],
  ["memory", "Memory of a GPU"],
];
const KIND_FIELDS = { whole: "gpus", fraction: "fraction", memory: "gpu_memory" } as const;
const EXAMPLES = { whole: "0", fraction: "as in 0.5", memory: "as in 16GiB" };

function Gpus({ pool, of }: { pool: string; of: OfForm }) {
  const live = useLive(pool);
  const [chosen, choose] = useState<GpuKind | null>(null);
  const kind = gpuKind(of.fields) === "whole" ? (chosen ?? "whole") : gpuKind(of.fields);
  const name = KIND_FIELDS[kind];
  const row = live.row.value;
  const become = (next: GpuKind) => {
    choose(next);
    of.set({ gpus: "", fraction: "", gpu_memory: "", gpu_devices: "" });
  };
  return (
    <>
      <Row label="GPUs per task" faults={of.faults.get(name)} hint={row && `${row.gpus_free} of ${row.gpus} are free now.`}>
        {(ids) => (
          <div class="joined">
            <select class="input" aria-label="How GPUs are asked for" value={kind} onChange={(event) => become(event.currentTarget.value as GpuKind)}>
              {KINDS.map(([each, text]) => (
                <option key={each} value={each}>
                  {text}
                </option>
              ))}
            </select>
            <input {...ids} class="input" value={of.fields[name]} placeholder={EXAMPLES[kind]} inputMode="decimal" autocomplete="off" onInput={(event) => of.set({ [name]: event.currentTarget.value })} />
          </div>
        )}
      </Row>
      {kind !== "whole" && <Text of={of} name="gpu_devices" label="On how many GPUs" placeholder="1" numeric hint="That part of each of them." />}
    </>
  );
}

function Where({ of }: { of: OfForm }) {
  const labels = { topology: "Topology", required: "All under one", preferred: "If possible under one" };
  const hints = { topology: "Its name in the policy, as in racks.", required: "A level, as in rack: without it the job waits.", preferred: "A level: never a reason to wait." };
  return (
    <Fold of={of} title="Where it runs" what="GPU model, nodes, topology" names={["gpu_model", "nodes", "node_labels", "topology", "pack"]}>
      <Text of={of} name="gpu_model" label="GPU models" placeholder="any" hint="One or more, between commas." />
      <Text of={of} name="nodes" label="Nodes" placeholder="any" hint="Only these, between commas." />
      {TOPOLOGY.map((each) => (
        <Row key={each} label={labels[each]} hint={hints[each]} faults={of.faults.get("topology")}>
          {(ids) => <input {...ids} class="input" value={of.fields.topology[each]} spellcheck={false} onInput={(event) => of.set({ topology: { ...of.fields.topology, [each]: event.currentTarget.value } })} />}
        </Row>
      ))}
      <Select of={of} name="pack" label="Packing" options={[["", "as the policy says"], ["binpack", "binpack: fill nodes up"], ["spread", "spread: over many nodes"]]} />
      <Pairs of={of} name="node_labels" label="Node labels" names="label" values="value" hint="Only nodes that carry all of these." />
    </Fold>
  );
}

function Leaving({ of }: { of: OfForm }) {
  return (
    <Fold
      of={of}
      title="Checkpoints and preemption"
      what="grace, what an eviction or a failure means"
      names={["preemptible", "grace", "kill_after", "on_eviction", "on_failure", "max_failures", "restart_backoff", "preemption_delay", "elastic"]}
    >
      <p class="hint" data-wide>
        A job that saves checkpoints with <code>bailiff_job</code> loses nothing when it is told to leave. They lie on its node; to go on elsewhere it needs a folder that all nodes see: begin the command with{" "}
        <code>BAILIFF_CHECKPOINT_DIR=/shared/$BAILIFF_JOB_ID</code>.
      </p>
      <Text of={of} name="grace" label="Grace" placeholder="as the class says" hint="From notice to KILL: long enough to save, as in 90s." />
      <Text of={of} name="kill_after" label="Of which after TERM" placeholder="as the class says" hint="The part from TERM to KILL." />
      <Select of={of} name="preemptible" label="May others displace it?" options={[["", "as its class says"], ["true", "yes"], ["false", "no"]]} />
      <Select of={of} name="on_eviction" label="When it is evicted" options={[["", "back to the queue"], ["requeue", "back to the queue (said)"], ["end", "it ends"]]} />
      <Select of={of} name="on_failure" label="When a task fails" options={[["", "it starts again"], ["restart", "it starts again (said)"], ["end", "it ends"]]} />
      <Text of={of} name="max_failures" label="Failures that it may have" placeholder="as the policy says" numeric hint="So many failed attempts are followed by another." />
      <Text of={of} name="restart_backoff" label="Pause before it starts again" placeholder="as the policy says" hint="Doubled each time." />
      <Text of={of} name="preemption_delay" label="Displaces nobody for" placeholder="as the policy says" hint="So long it only takes free room." />
      <Select of={of} name="elastic" label="Fewer or more tasks" options={[["", "as the policy says"], ["live", "while it runs"], ["restart", "by starting again"]]} />
    </Fold>
  );
}

function Surroundings({ of }: { of: OfForm }) {
  return (
    <Fold of={of} title="Environment" what="variables, secrets, folder, image, labels" names={["env", "secrets", "working_dir", "image", "labels", "sim_run_for"]}>
      <Pairs of={of} name="env" label="Environment variables" names="variable" values="value" hint="Never secrets: they stand in Kafka as they are." />
      <Pairs of={of} name="secrets" label="Secrets" names="variable" values="name of the secret" hint="By name; the node puts the value in." />
      <Text of={of} name="working_dir" label="Working directory" placeholder="as the agent has it" />
      <Text of={of} name="image" label="Container image" placeholder="none: a process" />
      <Text of={of} name="sim_run_for" label="Only simulate it, for" placeholder="no, or as in 5m" hint="Nothing runs; places are taken and left." />
      <Pairs of={of} name="labels" label="Labels" names="label" values="value" hint="They stand in the audit log; protections may go by them." />
    </Fold>
  );
}
