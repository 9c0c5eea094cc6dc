import type { ComponentChildren } from "preact";

import type { DecisionResponse } from "../../api";
import { few } from "../../lib";
import { VictimTable } from "../../shared/VictimTable";
import { Badge, Card, DataTable, JobLinks } from "../../ui";
import { costLevels } from "./costLevels";
import { jobNames } from "./decisionSummary";

const SETS = ["Chosen", "Runner-up", "Lower bound"];
type Row = { name: string; values: ComponentChildren[]; decides: boolean };

/** The chosen victims and their cost beside the runner-up. */
export function CostComparison({ pool, response }: { pool: string; response: DecisionResponse }) {
  const data = response.decision ?? {};
  const why = data.explanation ?? {};
  const victims = data.victims ?? [];
  if (!victims.length) return null;
  const second = why.runner_up?.length ? (why.runner_up_cost ?? { lost_gpu_ms: why.runner_up_lost_gpu_ms ?? 0 }) : null;
  const bound = why.proven ? null : (why.lower_bound ?? null);
  const costs = [why.cost ?? { lost_gpu_ms: victims.reduce((sum, each) => sum + (each.reserved ? 0 : each.lost_gpu_ms), 0) }, second, ...(bound ? [bound] : [])];
  const levels: Row[] = costLevels(costs);
  const names: Row = {
    name: "Victims",
    values: [jobNames(victims), why.runner_up ?? []].map((jobs) => <span class="compared-jobs">{jobs.length > 3 ? few(jobs) : jobs.length ? <JobLinks pool={pool} jobs={jobs} /> : <span class="soft">none found</span>}</span>),
    decides: false,
  };
  return (
    <Card title="Chosen victims and runner-up">
      {response.view.victims && <VictimTable pool={pool} victims={response.view.victims} caption="Victims" />}
      <div class="gap compared">
        <DataTable
          caption="Cost of each set by level, the most significant first"
          rows={[names, ...levels]}
          rowKey={(row) => row.name}
          columns={[
            { head: "Cost level, the most significant first", cell: (row) => <>{row.name} {row.decides && <Badge tone="accent">◂ decisive</Badge>}</> },
            ...SETS.slice(0, costs.length).map((head, at) => ({ head, right: true, cell: (row: Row) => row.values[at] })),
          ]}
        />
      </div>
      {Boolean(data.cancelled_evictions?.length || data.unneeded_victims?.length) && (
        <p class="soft note">
          {data.cancelled_evictions?.length ? `Not evicted after all, as their resources are not needed: ${few(data.cancelled_evictions)}. ` : ""}
          {data.unneeded_victims?.length ? `Proposed but no longer needed: ${few(data.unneeded_victims)}.` : ""}
        </p>
      )}
    </Card>
  );
}
