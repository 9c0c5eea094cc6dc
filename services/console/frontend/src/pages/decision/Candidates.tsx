import { useSignal } from "@preact/signals";

import { gpuCount, gpuTime, few, ruleSays } from "../../lib/terms";
import { Badge } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { DataTable } from "../../ui/DataTable";
import { JobLink } from "../../ui/Links";
import { counts, groupsOf, ordered, verdictOf, type Verdict } from "./candidates";
import type { Candidate, DecisionTold } from "./shapes";

const NAMES: Record<Verdict, string> = { chosen: "Chosen", free: "Could have been taken", shielded: "Shielded by a rule" };

/** Everybody that held room then, each excluded one with its rule in words. */
export function Candidates({ pool, told }: { pool: string; told: DecisionTold }) {
  const only = useSignal<Verdict | "">("");
  const rows = told.candidates;
  if (!rows) return <Groups told={told} />;
  const found = counts(rows);
  const several = new Set(rows.map((row) => row.verb)).size > 1;
  const shown = ordered(rows).filter((row) => !only.value || verdictOf(row) === only.value);
  return (
    <Card
      title="Who could have left"
      aside={
        <label class="filter">
          <span class="visually-hidden">Show</span>
          <select class="input" value={only.value} onChange={(event) => (only.value = event.currentTarget.value as Verdict | "")}>
            <option value="">All {rows.length}</option>
            {(Object.keys(NAMES) as Verdict[]).map((each) => (
              <option key={each} value={each}>
                {NAMES[each]}: {found[each]}
              </option>
            ))}
          </select>
        </label>
      }
    >
      {rows.length === 0 ? (
        <p class="soft">Nobody held room that this could be about.</p>
      ) : (
        <DataTable
          caption="Candidates, the chosen ones first"
          rows={shown}
          rowKey={(row) => `${row.verb}/${row.job}/${row.tasks}`}
          columns={[
            { head: "Job", cell: (row) => <><JobLink pool={pool} job={row.job} />{row.tasks && <span class="soft"> tasks {row.tasks}</span>}</> },
            { head: "Verdict", cell: (row) => <Judged row={row} /> },
            { head: "Class", cell: (row) => `${row.class_name} ${row.priority}` },
            { head: "Project", cell: (row) => row.project },
            { head: "GPUs", right: true, cell: (row) => row.gpu_milli / 1000 },
            { head: "Would lose", right: true, cell: (row) => gpuTime(row.lost_gpu_ms) },
            ...(several ? [{ head: "Under", cell: (row: Candidate) => row.verb }] : []),
          ]}
        />
      )}
    </Card>
  );
}

function Judged({ row }: { row: Candidate }) {
  if (row.chosen) return <Badge tone="warn">⇤ chosen</Badge>;
  if (!row.rule) return <Badge tone="accent">could have been taken</Badge>;
  return (
    <span>
      <Badge>{row.rule}</Badge> <span class="soft">it {ruleSays(row.rule)}</span>
    </span>
  );
}

/** Where the full list cannot be made again: what the record itself holds of it. */
function Groups({ told }: { told: DecisionTold }) {
  const data = told.decision ?? {};
  const groups = groupsOf(told.verb ?? data.verb ?? "preempt", data.explanation);
  if (!data.explanation) return null;
  return (
    <Card title="Who could have left">
      <p class="soft">
        The full list cannot be made again{told.no_candidates_because && `: ${told.no_candidates_because}`}. This is what the record holds of it. {data.explanation.candidates ?? 0} {data.explanation.candidates === 1 ? "job" : "jobs"} could have been taken.
      </p>
      {groups.length > 0 && (
        <DataTable
          caption="Those that rules shielded"
          rows={groups}
          rowKey={(row) => `${row.verb}/${row.rule}`}
          columns={[
            { head: "Rule", cell: (row) => <Badge>{row.rule}</Badge> },
            { head: "It shields a job that", cell: (row) => row.says },
            { head: "Jobs", right: true, cell: (row) => row.jobs },
            { head: "Such as", cell: (row) => few(row.examples, 3, row.jobs) },
            { head: "Under", cell: (row) => row.verb },
          ]}
        />
      )}
    </Card>
  );
}

/** Who leaves, and what each loses. */
export function Victims({ pool, told }: { pool: string; told: DecisionTold }) {
  const victims = told.decision?.victims ?? [];
  if (!victims.length) return null;
  return (
    <DataTable
      caption="Who leaves"
      rows={victims}
      rowKey={(row) => `${row.job}/${row.tasks ?? ""}`}
      columns={[
        { head: "Leaves", cell: (row) => <><JobLink pool={pool} job={row.job} />{row.tasks && <span class="soft"> only tasks {row.tasks}</span>}</> },
        { head: "Class", cell: (row) => `${row.class_name ?? ""} ${row.priority}`.trim() },
        { head: "Project", cell: (row) => row.project ?? "" },
        { head: "GPUs", right: true, cell: (row) => gpuCount(row.gpus * 1000) },
        { head: "Loses", right: true, cell: (row) => (row.reserved ? "nothing: it had not started" : gpuTime(row.lost_gpu_ms)) },
        { head: "Then", cell: (row) => (row.moved?.length ? "moves to a place that is kept for it" : "back to the queue, at its old place") },
      ]}
    />
  );
}
