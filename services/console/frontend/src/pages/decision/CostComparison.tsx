import { few } from "../../lib/format";
import { Badge } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { JobLink } from "../../ui/Links";
import { Victims } from "./VictimCandidates";
import { costLevels } from "./costLevels";
import type { DecisionResponse } from "./types";
import { jobNames } from "./decisionSummary";

/** The chosen victims and their cost beside the runner-up. */
export function CostComparison({ pool, response }: { pool: string; response: DecisionResponse }) {
  const data = response.decision ?? {};
  const why = data.explanation ?? {};
  const victims = data.victims ?? [];
  if (!victims.length) return null;
  const second = why.runner_up?.length ? (why.runner_up_cost ?? { lost_gpu_ms: why.runner_up_lost_gpu_ms ?? 0 }) : null;
  const bound = why.proven ? null : (why.lower_bound ?? null);
  const costs = [why.cost ?? { lost_gpu_ms: victims.reduce((sum, each) => sum + (each.reserved ? 0 : each.lost_gpu_ms), 0) }, second, ...(bound ? [bound] : [])];
  return (
    <Card title="Chosen victims and runner-up">
      <Victims pool={pool} response={response} />
      <div class="table-scroll gap" tabIndex={0} role="region" aria-label="Cost comparison">
        <table class="table compared">
          <caption class="visually-hidden">Cost of each set by level, the most significant first</caption>
          <thead>
            <tr>
              <th scope="col">Cost level, the most significant first</th>
              <th scope="col" class="right">Chosen</th>
              <th scope="col" class="right">Runner-up</th>
              {bound && <th scope="col" class="right">Lower bound</th>}
            </tr>
          </thead>
          <tbody>
            <tr>
              <th scope="row">Victims</th>
              <td class="right">{jobNames(victims).length > 3 ? `${few(jobNames(victims))}` : jobNames(victims).map((job, at) => <span key={job}>{at > 0 && ", "}<JobLink pool={pool} job={job} /></span>)}</td>
              <td class="right">{second ? (why.runner_up!.length > 3 ? few(why.runner_up!) : why.runner_up!.map((job, at) => <span key={job}>{at > 0 && ", "}<JobLink pool={pool} job={job} /></span>)) : <span class="soft">none found</span>}</td>
              {bound && <td />}
            </tr>
            {costLevels(costs).map((level) => (
              <tr key={level.name} data-decides={level.decides}>
                <th scope="row">
                  {level.name} {level.decides && <Badge tone="accent">◂ decisive</Badge>}
                </th>
                {level.values.map((value, at) => <td key={at} class="right">{value}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
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
