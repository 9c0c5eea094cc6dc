import { useSignal } from "@preact/signals";

import { moment } from "../../lib/words";
import { Badge } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { DataTable } from "../../ui/DataTable";
import { JobLink } from "../../ui/Links";
import { Switch } from "../../ui/Switch";
import { GROUP_FIELDS, gpuHours, groupRows, HEADS, hours, LABELS, shares, summary, totals, verdict, VERDICTS, type GroupField, type GroupRow, type Measure, type MovedJob, type WhatIfResult } from "./result";

/** What happened, the same simulated again, and under the other policy, side by side. */
export function ResultView({ pool, result, report, outdated }: { pool: string; result: WhatIfResult; report: string | null; outdated: boolean }) {
  return (
    <div class="result">
      {outdated && <p class="caution">The policy above has been changed since this was simulated.</p>}
      <Card
        title="What it comes to"
        aside={
          <span class="soft">
            {at(result.from)} to {at(result.to)}
          </span>
        }
      >
        <p class="result-verdict">{summary(result)}</p>
        <Totals rows={totals(result)} />
        <div class="result-trust">
          <strong>How sure this is</strong>
          <p>{result.trust}</p>
          <p class="soft">“Observed” is what the log says. “Simulated again” is the same engine under the policies that were in force: what it is off by is the error of “other policy”, too.</p>
        </div>
        {report && (
          <p>
            <a href={report} target="_blank" rel="noopener">
              The whole report, with plots
            </a>{" "}
            <span class="soft">(a page of its own)</span>
          </p>
        )}
      </Card>
      <Groups result={result} />
      <Moved pool={pool} title="Helped most" rows={result.helped} />
      <Moved pool={pool} title="Hurt most" rows={result.hurt} />
      <Card title="What was assumed">
        <ul class="assumed">
          {result.assumed.map((sentence) => (
            <li key={sentence}>{sentence}</li>
          ))}
        </ul>
      </Card>
    </div>
  );
}

const at = (micros: number): string => moment(new Date(micros / 1000).toISOString());

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
      columns={[{ head: "", cell: (row) => row.name }, ...LABELS.map((label) => ({ head: HEADS[label], right: true, cell: (row: Measure) => figure(row, label) })), { head: "Other against simulated", cell: (row) => <Change measure={row} /> }]}
    />
  );
}

type Chosen = GroupField | "shares";

function Groups({ result }: { result: WhatIfResult }) {
  const chosen = useSignal<Chosen>("waited_mean");
  const rows = chosen.value === "shares" ? shares(result) : groupRows(result, chosen.value);
  const most = Math.max(...rows.flatMap((row) => LABELS.map((label) => row.measure.figures[label] ?? 0)), 1e-9);
  const options: [Chosen, string][] = [...GROUP_FIELDS.map(({ field, name }): [Chosen, string] => [field, name]), ["shares", "Share of entitlement"]];
  return (
    <Card
      title="By class and project"
      aside={<Switch wrapping legend="Which figure" options={options} value={chosen.value} onChange={(next) => (chosen.value = next)} />}
    >
      <DataTable
        caption="By class and project"
        rows={rows}
        rowKey={(row) => `${row.kind} ${row.name}`}
        columns={[
          { head: "", cell: (row) => <><span class="soft">{row.kind}</span> {row.name}</> },
          { head: "Jobs", right: true, cell: (row) => row.jobs },
          ...LABELS.map((label) => ({ head: HEADS[label], right: true, cell: (row: GroupRow) => figure(row.measure, label) })),
          { head: "Other against simulated", cell: (row) => <Change measure={row.measure} /> },
          { head: "Side by side", cell: (row) => <Three row={row} most={most} /> },
        ]}
      />
      <p class="runs-key soft" aria-hidden="true">
        {LABELS.map((label) => (
          <span key={label}>
            <i data-run={label} /> {HEADS[label]}
          </span>
        ))}
      </p>
    </Card>
  );
}

/** Three bars; the figures stand beside them. */
function Three({ row, most }: { row: GroupRow; most: number }) {
  return (
    <div class="three" aria-hidden="true">
      {LABELS.map((label) => (
        <span key={label} data-run={label} style={{ "--part": (row.measure.figures[label] ?? 0) / most }} />
      ))}
    </div>
  );
}

function Moved({ pool, title, rows }: { pool: string; title: string; rows: MovedJob[] }) {
  const two = ([before, after]: [number, number], show: (value: number) => string) => (show(before) === show(after) ? show(after) : `${show(before)} → ${show(after)}`);
  return (
    <Card title={title}>
      {rows.length ? (
        <DataTable
          caption={`${title}: simulated again → under the other policy`}
          rows={rows}
          rowKey={(row) => row.job}
          columns={[
            { head: "Job", cell: (row) => <><JobLink pool={pool} job={row.job} /> <span class="soft">{row.class}{row.project && `, ${row.project}`}</span></> },
            { head: "GPUs", right: true, cell: (row) => row.gpus },
            { head: "Time lost", right: true, cell: (row) => `${row.hours > 0 ? "+" : ""}${hours(row.hours)}` },
            { head: "Waited", cell: (row) => two(row.waited_hours, hours) },
            { head: "Evictions", cell: (row) => two(row.evictions, String) },
            { head: "GPU-h lost", cell: (row) => two(row.gpu_hours_lost, gpuHours) },
          ]}
        />
      ) : (
        <p class="soft">Nobody.</p>
      )}
    </Card>
  );
}
