import { useSignal } from "@preact/signals";

import { ruleText } from "../../lib/decisionText";
import { gpuCount, gpuTime, few } from "../../lib/format";
import { Badge } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { DataTable } from "../../ui/DataTable";
import { JobLink } from "../../ui/Links";
import { counts, excludedGroups, sortedCandidates, candidateVerdict, type Verdict } from "./candidateVerdicts";
import type { Candidate, DecisionResponse } from "./types";

const NAMES: Record<Verdict, string> = { chosen: "Chosen", eligible: "Eligible", protected: "Protected by a rule" };

/** All jobs with allocated or reserved resources at the time; excluded ones with the rule. */
export function VictimCandidates({ pool, response }: { pool: string; response: DecisionResponse }) {
  const only = useSignal<Verdict | "">("");
  const rows = response.candidates;
  if (!rows) return <ExcludedGroups response={response} />;
  const found = counts(rows);
  const several = new Set(rows.map((row) => row.action)).size > 1;
  const shown = sortedCandidates(rows).filter((row) => !only.value || candidateVerdict(row) === only.value);
  return (
    <Card
      title="Victim candidates"
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
        <p class="soft">No job had resources allocated that were relevant.</p>
      ) : (
        <DataTable
          caption="Victim candidates, the chosen ones first"
          rows={shown}
          rowKey={(row) => `${row.action}/${row.job}/${row.tasks}`}
          columns={[
            { head: "Job", cell: (row) => <><JobLink pool={pool} job={row.job} />{row.tasks && <span class="soft"> tasks {row.tasks}</span>}</> },
            { head: "Verdict", cell: (row) => <VerdictBadge row={row} /> },
            { head: "Class", cell: (row) => `${row.class_name} ${row.priority}` },
            { head: "Project", cell: (row) => row.project },
            { head: "GPUs", right: true, cell: (row) => row.gpu_milli / 1000 },
            { head: "Work lost", right: true, cell: (row) => gpuTime(row.lost_gpu_ms) },
            ...(several ? [{ head: "Action", cell: (row: Candidate) => row.action }] : []),
          ]}
        />
      )}
    </Card>
  );
}

function VerdictBadge({ row }: { row: Candidate }) {
  if (row.chosen) return <Badge tone="warn">⇤ chosen</Badge>;
  if (!row.rule) return <Badge tone="accent">eligible</Badge>;
  return (
    <span>
      <Badge>{row.rule}</Badge> <span class="soft">{ruleText(row.rule)}</span>
    </span>
  );
}

/** Summary of the candidates from the record, if the full list cannot be recomputed. */
function ExcludedGroups({ response }: { response: DecisionResponse }) {
  const data = response.decision ?? {};
  const groups = excludedGroups(response.action ?? data.action ?? "preempt", data.explanation);
  if (!data.explanation) return null;
  return (
    <Card title="Victim candidates">
      <p class="soft">
        The full list cannot be recomputed{response.no_candidates_reason && `: ${response.no_candidates_reason}`}. This is the summary in the record. {data.explanation.candidates ?? 0} {data.explanation.candidates === 1 ? "job was an eligible victim" : "jobs were eligible victims"}.
      </p>
      {groups.length > 0 && (
        <DataTable
          caption="Jobs protected by rules"
          rows={groups}
          rowKey={(row) => `${row.action}/${row.rule}`}
          columns={[
            { head: "Rule", cell: (row) => <Badge>{row.rule}</Badge> },
            { head: "Protects a job that", cell: (row) => row.text },
            { head: "Jobs", right: true, cell: (row) => row.jobs },
            { head: "Examples", cell: (row) => few(row.examples, 3, row.jobs) },
            { head: "Action", cell: (row) => row.action },
          ]}
        />
      )}
    </Card>
  );
}

/** The victims and the work that each loses. */
export function Victims({ pool, response }: { pool: string; response: DecisionResponse }) {
  const victims = response.decision?.victims ?? [];
  if (!victims.length) return null;
  return (
    <DataTable
      caption="Victims"
      rows={victims}
      rowKey={(row) => `${row.job}/${row.tasks ?? ""}`}
      columns={[
        { head: "Victim", cell: (row) => <><JobLink pool={pool} job={row.job} />{row.tasks && <span class="soft"> only tasks {row.tasks}</span>}</> },
        { head: "Class", cell: (row) => `${row.class_name ?? ""} ${row.priority}`.trim() },
        { head: "Project", cell: (row) => row.project ?? "" },
        { head: "GPUs", right: true, cell: (row) => gpuCount(row.gpus * 1000) },
        { head: "Work lost", right: true, cell: (row) => (row.reserved ? "none: not started" : gpuTime(row.lost_gpu_ms)) },
        { head: "Afterwards", cell: (row) => (row.moved_to?.length ? "migrates; resources are reserved" : "requeued at its previous position") },
      ]}
    />
  );
}
