import { bytes, duration } from "../../lib/words";
import type { LiveJob } from "../../live/shapes";
import { Ago } from "../../ui/Ago";
import { Bar } from "../../ui/Bar";
import { Card } from "../../ui/Card";
import { DataTable } from "../../ui/DataTable";
import { NodeLink, SeqLink } from "../../ui/Links";
import { checkpoints, progressOf } from "./progress";
import type { JobDetails, RecordItem, TaskRow } from "./shapes";

const SHOWN = 5;
const whole = (value: number): string => value.toLocaleString("en");

/** How far the job says it is, and what is saved of it. */
export function Progress({ pool, live, details, records }: { pool: string; live: LiveJob | null; details: JobDetails | null; records: RecordItem[] }) {
  const found = progressOf(live, details, records);
  const saved = checkpoints(records);
  const left = found.pace && found.total !== null && found.step !== null ? (found.total - found.step) / found.pace : null;
  return (
    <Card title="Progress and checkpoints">
      {found.step === null && found.savedStep === null ? (
        <p class="soft">The job does not say how far it is. With the job contract (docs/jobs.md) it publishes its steps and checkpoints, and loses less when it has to leave.</p>
      ) : (
        <>
          {found.step !== null && (
            <p class="lead">
              Step <strong class="number">{whole(found.step)}</strong>
              {found.total !== null && <> of {whole(found.total)}</>}
              {found.pace !== null && <span class="soft"> at {found.pace >= 1 ? `${Math.round(found.pace * 10) / 10} steps a second` : `${Math.round(1 / found.pace)} s a step`}</span>}
              {left !== null && left > 0 && live?.state === "running" && <span class="soft">, about {duration(left)} left</span>}
            </p>
          )}
          {found.step !== null && found.total !== null && (
            <Bar used={found.step} quota={null} of={found.total} marks={found.savedStep !== null ? [found.savedStep] : []} words={`Step ${found.step} of ${found.total}, saved up to step ${found.savedStep ?? 0}`} />
          )}
          <p>
            {found.savedStep === null ? "No checkpoint is known yet." : <>Saved up to step <strong class="number">{whole(found.savedStep)}</strong>{found.savedAt && <>, <Ago at={found.savedAt} /></>}.</>}
            {found.unsaved !== null && found.unsaved > 0 && live && <> {whole(found.unsaved)} {found.unsaved === 1 ? "step" : "steps"} {live.state === "running" ? "would be done again if it had to leave without saving" : live.state === "evicting" ? "are done again unless more is saved on its way out" : "will be done again when it goes on"}.</>}
          </p>
        </>
      )}
      {saved.length > 0 && (
        <DataTable
          caption="Checkpoints on record, the newest first"
          rows={saved.slice(0, SHOWN)}
          rowKey={(row) => row.seq}
          columns={[
            { head: "Step", right: true, cell: (row) => whole(row.step) },
            { head: "Saved", cell: (row) => <Ago at={row.at} /> },
            { head: "Size", right: true, cell: (row) => bytes(row.bytes) },
            { head: "Took", right: true, cell: (row) => `${Math.round(row.micros / 100_000) / 10} s` },
            { head: "Record", cell: (row) => <><SeqLink pool={pool} seq={row.seq} />{row.evicted && " on its way out"}</> },
          ]}
        />
      )}
    </Card>
  );
}

/** Each task: where it runs, and how far it is. */
export function Tasks({ pool, tasks }: { pool: string; tasks: TaskRow[] }) {
  if (!tasks.length) return null;
  return (
    <Card title="Tasks">
      <DataTable
        caption="Tasks of the present attempt"
        rows={tasks}
        rowKey={(row) => row.task}
        columns={[
          { head: "Task", right: true, cell: (row) => row.task },
          { head: "Node", cell: (row) => <NodeLink pool={pool} node={row.node} /> },
          { head: "GPUs", cell: (row) => row.devices.join(", ") },
          { head: "State", cell: (row) => (row.stage ? `${row.state}, ${row.stage.replaceAll("_", " ")}` : row.state) },
          { head: "Started", cell: (row) => (row.started_at ? <Ago at={row.started_at} /> : "") },
          { head: "Step", right: true, cell: (row) => row.step?.toLocaleString("en") ?? "" },
          { head: "Exit code", right: true, cell: (row) => row.exit_code ?? "" },
        ]}
      />
    </Card>
  );
}
