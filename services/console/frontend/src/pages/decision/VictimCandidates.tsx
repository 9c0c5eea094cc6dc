import { useSignal } from "@preact/signals";

import type { Candidate, DecisionResponse } from "../../api";
import { few, gpuTime, ruleText } from "../../lib";
import { Badge, Card, DataTable, JobLink, Select } from "../../ui";
import { candidateVerdict, counts, excludedGroups, sortedCandidates, type Verdict } from "./candidateVerdicts";

const NAMES: Record<Verdict, string> = { chosen: "Chosen", eligible: "Eligible", protected: "Protected by a rule" };

const VERDICTS = Object.keys(NAMES) as Verdict[];

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
      aside={<Select label="Show" value={only.value} options={[["", `All ${rows.length}`], ...VERDICTS.map((each): [Verdict, string] => [each, `${NAMES[each]}: ${found[each]}`])]} onChange={(next) => (only.value = next)} />}
    >
      <DataTable
        caption="Victim candidates, the chosen ones first"
        empty={rows.length ? "" : "No job had resources allocated that were relevant."}
        rows={shown}
        rowKey={(row) => `${row.action}/${row.job}/${row.tasks}`}
        columns={[
          { head: "Job", cell: (row) => <><JobLink pool={pool} job={row.job} />{row.tasks && <span class="soft"> tasks {row.tasks}</span>}</> },
          { head: "Verdict", cell: (row) => <VerdictBadge row={row} /> },
          { head: "Class", cell: (row) => `${row.class_name} ${row.priority}` },
          { head: "Project", cell: (row) => row.project },
          { head: "GPUs", right: true, cell: (row) => row.gpu_milli / 1000 },
          { head: "Work lost and restart", right: true, cell: lostBy },
          ...(several ? [{ head: "Action", cell: (row: Candidate) => row.action }] : []),
        ]}
      />
    </Card>
  );
}

/** What these tasks add to the loss of those that the job loses before them. */
const lostBy = (row: Candidate) => (row.after ? <>+ {gpuTime(row.lost_gpu_ms)} <span class="soft">after tasks {row.after}</span></> : gpuTime(row.lost_gpu_ms));

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
  const { action, explanation } = response.view;
  const groups = excludedGroups(action ?? "preempt", explanation ?? undefined);
  if (!explanation) return null;
  return (
    <Card title="Victim candidates">
      <p class="soft">
        The full list cannot be recomputed{response.no_candidates_reason && `: ${response.no_candidates_reason}`}. This is the summary in the record. {explanation.candidates ?? 0} {explanation.candidates === 1 ? "job was an eligible victim" : "jobs were eligible victims"}.
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
