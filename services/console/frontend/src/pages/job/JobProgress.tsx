import type { JobPage, LiveJob, RecordItem, TaskRow } from "../../api";
import { bytes, duration, exitValue } from "../../lib";
import { Bar, Card, DataTable, NodeLink, RelativeTime, SeqLink } from "../../ui";
import { checkpoints, jobProgress } from "./progressModel";

const SHOWN = 5;
const EXAMPLE = `from bailiff_job import attach

job = attach("checkpoints")
for step in range(job.restore(load), total):
    train(step)
    job.progress(step, total)
    if job.should_checkpoint(step):
        job.checkpoint(step, save)
    if job.preempted:
        job.exit()
`;
const whole = (value: number): string => value.toLocaleString("en");

/** The job's progress and checkpoints, as it reports them. */
export function JobProgress({ pool, live, details, records, succeeded }: { pool: string; live: LiveJob | null; details: JobPage | null; records: RecordItem[]; succeeded: boolean }) {
  const found = jobProgress(live, details, records, succeeded);
  const saved = checkpoints(records);
  const left = found.pace && found.total !== null && found.step !== null ? (found.total - found.step) / found.pace : null;
  return (
    <Card title="Progress and checkpoints">
      {found.step === null && found.savedStep === null ? (
        <>
          <p class="soft">The job reports no progress. With the job library <code>bailiff_job</code> it reports steps and checkpoints, and loses less work when it is evicted.</p>
          <details>
            <summary>How a training script reports progress</summary>
            <pre class="well example">{EXAMPLE}</pre>
          </details>
        </>
      ) : (
        <>
          {found.step !== null && (
            <p class="lead">
              Step <strong class="number">{whole(found.step)}</strong>
              {found.total !== null && <> of {whole(found.total)}</>}
              {found.done && <span class="good"> ✓ succeeded</span>}
              {found.pace !== null && !found.done && <span class="soft"> at {found.pace >= 1 ? `${Math.round(found.pace * 10) / 10} steps a second` : `${Math.round(1 / found.pace)} s a step`}</span>}
              {left !== null && left > 0 && live?.state === "running" && <span class="soft">, about {duration(left)} left</span>}
            </p>
          )}
          {found.step !== null && found.total !== null && (
            <Bar used={found.step} quota={null} of={found.total} marks={found.savedStep !== null ? [found.savedStep] : []} words={`Step ${found.step} of ${found.total}, checkpoint at step ${found.savedStep ?? 0}`} />
          )}
          <p>
            {found.savedStep === null ? "No checkpoint yet." : <>Last checkpoint at step <strong class="number">{whole(found.savedStep)}</strong>{found.savedAt && <>, <RelativeTime at={found.savedAt} /></>}.</>}
            {found.unsaved !== null && found.unsaved > 0 && live && <> {whole(found.unsaved)} {found.unsaved === 1 ? "step" : "steps"} {live.state === "running" ? "would be lost without another checkpoint" : live.state === "evicting" ? "are lost unless it saves a checkpoint before it exits" : "will be repeated after it resumes"}.</>}
          </p>
        </>
      )}
      {saved.length > 0 && (
        <DataTable
          caption="Checkpoints, newest first"
          rows={saved.slice(0, SHOWN)}
          rowKey={(row) => row.seq}
          columns={[
            { head: "Step", right: true, cell: (row) => whole(row.step) },
            { head: "Saved", cell: (row) => <RelativeTime at={row.at} /> },
            { head: "Size", right: true, cell: (row) => bytes(row.bytes) },
            { head: "Duration", right: true, cell: (row) => duration(row.micros / 1_000_000) },
            { head: "Record", cell: (row) => <><SeqLink pool={pool} seq={row.seq} />{row.evicted && " during eviction"}</> },
          ]}
        />
      )}
    </Card>
  );
}

/** The tasks of the job: node, GPUs, state and progress. */
export function TaskTable({ pool, tasks }: { pool: string; tasks: TaskRow[] }) {
  if (!tasks.length) return null;
  return (
    <Card title="Tasks">
      <DataTable
        caption="Tasks of the current attempt"
        rows={tasks}
        rowKey={(row) => row.task}
        columns={[
          { head: "Task", right: true, cell: (row) => row.task },
          { head: "Node", cell: (row) => <NodeLink pool={pool} node={row.node} /> },
          { head: "GPUs", cell: (row) => row.devices.join(", ") },
          { head: "State", cell: (row) => (row.stage ? `${row.state}, ${row.stage.replaceAll("_", " ")}` : row.state) },
          { head: "Started", cell: (row) => (row.started_at ? <RelativeTime at={row.started_at} /> : "") },
          { head: "Step", right: true, cell: (row) => row.step?.toLocaleString("en") ?? "" },
          { head: "Exit", right: true, cell: (row) => (row.exit_code === null ? "" : exitValue(row.exit_code)) },
        ]}
      />
    </Card>
  );
}
