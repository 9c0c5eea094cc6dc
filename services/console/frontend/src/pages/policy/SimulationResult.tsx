import { useSignal } from "@preact/signals";

import type { ChangedJob, Comparison } from "../../api";
import { count, momentAt, sanitizeLine } from "../../lib";
import { Badge, Card, DataTable, JobLink, ViewSwitch } from "../../ui";
import { gpuHours, GROUP_FIELDS, groupRows, HEADS, hours, LABELS, shares, summary, totals, verdict, VERDICTS, type GroupField, type GroupRow, type Measure } from "./resultMeasures";

/** The recorded run, its simulation, and the simulation under the other policy, compared. */
export function SimulationResult({ pool, result, report, outdated }: { pool: string; result: Comparison; report: string | null; outdated: boolean }) {
  return (
    <div class="stack spaced result">
      {outdated && <p class="caution">The policy was edited after this simulation.</p>}
      <Card
        title="Result"
        aside={
          <span class="soft">
            {at(result.from)} to {at(result.to)}
          </span>
        }
      >
        {result.headline.length > 0 && (
          <ul class="stack result-headline">
            {result.headline.map((sentence) => (
              <li key={sentence}>
                <Badge tone="bad">!</Badge> <bdi>{sanitizeLine(sentence)}</bdi>
              </li>
            ))}
          </ul>
        )}
        <p class="result-verdict">{summary(result)}</p>
        <Totals rows={totals(result)} />
        <div class="stack result-trust">
          <strong>Confidence</strong>
          <p>{result.confidence}</p>
          <p class="soft">“Recorded” is the log. “Simulated” is the same engine under the policies that were in force; its deviation from the log is the simulation error, which also applies to “Other policy”.</p>
        </div>
        {report && (
          <p>
            <a href={report} target="_blank" rel="noopener">
              Full report with plots
            </a>{" "}
            <span class="soft">(opens in a new tab)</span>
          </p>
        )}
      </Card>
      <Groups result={result} />
      <CannotRun pool={pool} result={result} />
      <ChangedJobs pool={pool} title="Most improved jobs" rows={result.improved} />
      <ChangedJobs pool={pool} title="Most worsened jobs" rows={result.worsened} neverStarted={result.never_started} none={result.rejected.length + result.never_started.length > 0 ? "None of the jobs that ran in both simulations. Those that could not run are above." : "None."} />
      <Card title="Assumptions">
        <ul class="stack sentences">
          {result.assumptions.map((sentence) => (
            <li key={sentence}>{sentence}</li>
          ))}
        </ul>
      </Card>
    </div>
  );
}

const at = (micros: number): string => momentAt(micros / 1000);

const figure = (measure: Measure, label: (typeof LABELS)[number]): string => {
  const value = measure.figures[label];
  return value === null ? "–" : measure.show(value);
};

function Change({ measure }: { measure: Measure }) {
  const found = verdict(measure);
  if (!found) return <span class="soft">–</span>;
  const { sign, text, tone } = VERDICTS[found.verdict];
  const by = found.verdict === "same" ? "" : `${found.by < 0 ? "−" : "+"}${(measure.showBy ?? measure.show)(Math.abs(found.by))} `;
  return (
    <Badge tone={tone}>
      <span aria-hidden="true">{sign}</span> {by}
      {text}
    </Badge>
  );
}

function Totals({ rows }: { rows: Measure[] }) {
  return (
    <DataTable
      caption="All jobs, in three runs"
      rows={rows}
      rowKey={(row) => row.name}
      columns={[{ head: "", cell: (row) => row.name }, ...LABELS.map((label) => ({ head: HEADS[label], right: true, cell: (row: Measure) => figure(row, label) })), { head: "Other vs. simulated", cell: (row) => <Change measure={row} /> }]}
    />
  );
}

type Chosen = GroupField | "shares";

function Groups({ result }: { result: Comparison }) {
  const chosen = useSignal<Chosen>("waited_mean");
  const rows = chosen.value === "shares" ? shares(result) : groupRows(result, chosen.value);
  const most = Math.max(...rows.flatMap((row) => LABELS.map((label) => row.measure.figures[label] ?? 0)), 1e-9);
  const options: [Chosen, string][] = [...GROUP_FIELDS.map(({ field, name }): [Chosen, string] => [field, name]), ["shares", "Share of entitlement"]];
  return (
    <Card
      title="By class and project"
      aside={<ViewSwitch wrapping legend="Figure" options={options} value={chosen.value} onChange={(next) => (chosen.value = next)} />}
    >
      <DataTable
        caption="By class and project"
        rows={rows}
        rowKey={(row) => `${row.kind} ${row.name}`}
        columns={[
          { head: "", cell: (row) => <><span class="soft">{row.kind}</span> {row.name}</> },
          { head: "Jobs", right: true, cell: (row) => row.jobs },
          ...LABELS.map((label) => ({ head: HEADS[label], right: true, cell: (row: GroupRow) => figure(row.measure, label) })),
          { head: "Other vs. simulated", cell: (row) => <Change measure={row.measure} /> },
          { head: "Comparison", cell: (row) => <RunBars row={row} most={most} /> },
        ]}
      />
      <p class="row legend runs-legend" aria-hidden="true">
        {LABELS.map((label) => (
          <span key={label}>
            <i data-run={label} /> {HEADS[label]}
          </span>
        ))}
      </p>
    </Card>
  );
}

/** Bars of the three runs, beside the figures. */
function RunBars({ row, most }: { row: GroupRow; most: number }) {
  return (
    <div class="stack run-bars" aria-hidden="true">
      {LABELS.map((label) => (
        <span key={label} data-run={label} style={{ "--part": (row.measure.figures[label] ?? 0) / most }} />
      ))}
    </div>
  );
}

const MOST_JOBS = 20;

/** The jobs that could not run at all under the other policy: worse than any delay, and in no table of changes. */
function CannotRun({ pool, result }: { pool: string; result: Comparison }) {
  const rows = [...result.rejected.map(({ job, reason }) => ({ job, why: `rejected: ${reason}` })), ...result.never_started.map((job) => ({ job, why: "never started before the end" }))];
  if (!rows.length) return null;
  return (
    <Card title="Jobs that could not run">
      <DataTable
        caption="Jobs that could not run under the other policy"
        rows={rows.slice(0, MOST_JOBS)}
        rowKey={(row) => row.job}
        columns={[{ head: "Job", cell: (row) => <JobLink pool={pool} job={row.job} /> }, { head: "Under the other policy", cell: (row) => <bdi>{sanitizeLine(row.why)}</bdi> }]}
      />
      {rows.length > MOST_JOBS && <p class="soft note">{MOST_JOBS} of {count(rows.length, "job")}; the full report has all.</p>}
    </Card>
  );
}

function ChangedJobs({ pool, title, rows, neverStarted = [], none = "None." }: { pool: string; title: string; rows: ChangedJob[]; neverStarted?: readonly string[]; none?: string }) {
  const two = ([before, after]: [number, number], show: (value: number) => string) => (show(before) === show(after) ? show(after) : `${show(before)} → ${show(after)}`);
  return (
    <Card title={title}>
      <DataTable
        caption={`${title}: simulated → other policy`}
        empty={none}
        rows={rows}
        rowKey={(row) => row.job}
        columns={[
          { head: "Job", cell: (row) => <><JobLink pool={pool} job={row.job} /> <span class="soft">{row.class}{row.project && `, ${row.project}`}</span></> },
          { head: "GPUs", right: true, cell: (row) => row.gpus },
          { head: "Time lost", right: true, cell: (row) => `${row.time_lost_hours > 0 ? "+" : ""}${hours(row.time_lost_hours)}` },
          { head: "Wait time", cell: (row) => (neverStarted.includes(row.job) ? `${hours(row.waited_hours[0])} → not started` : two(row.waited_hours, hours)) },
          { head: "Evictions", cell: (row) => two(row.evictions, String) },
          { head: "GPU-h lost", cell: (row) => two(row.gpu_hours_lost, gpuHours) },
        ]}
      />
    </Card>
  );
}
