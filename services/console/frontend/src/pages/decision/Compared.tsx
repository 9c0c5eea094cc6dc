import { few } from "../../lib/terms";
import { Badge } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { JobLink } from "../../ui/Links";
import { Victims } from "./Candidates";
import { levels } from "./cost";
import type { DecisionTold } from "./shapes";
import { jobsOf } from "./story";

/** The chosen set and its cost beside the runner-up. */
export function Compared({ pool, told }: { pool: string; told: DecisionTold }) {
  const data = told.decision ?? {};
  const why = data.explanation ?? {};
  const victims = data.victims ?? [];
  if (!victims.length) return null;
  const second = why.runner_up?.length ? (why.runner_up_cost ?? { lost_gpu_ms: why.runner_up_lost_gpu_ms ?? 0 }) : null;
  const bound = why.proven ? null : (why.at_least ?? null);
  const costs = [why.cost ?? { lost_gpu_ms: victims.reduce((sum, each) => sum + (each.reserved ? 0 : each.lost_gpu_ms), 0) }, second, ...(bound ? [bound] : [])];
  return (
    <Card title="The chosen set, beside the second best">
      <Victims pool={pool} told={told} />
      <div class="table-scroll gap" tabIndex={0} role="region" aria-label="Costs compared">
        <table class="table compared">
          <caption class="visually-hidden">What each set costs, the most important level first</caption>
          <thead>
            <tr>
              <th scope="col">Costs, the most important first</th>
              <th scope="col" class="right">Chosen</th>
              <th scope="col" class="right">Second best</th>
              {bound && <th scope="col" class="right">No set costs less than</th>}
            </tr>
          </thead>
          <tbody>
            <tr>
              <th scope="row">Who leaves</th>
              <td class="right">{jobsOf(victims).length > 3 ? `${few(jobsOf(victims))}` : jobsOf(victims).map((job, at) => <span key={job}>{at > 0 && ", "}<JobLink pool={pool} job={job} /></span>)}</td>
              <td class="right">{second ? (why.runner_up!.length > 3 ? few(why.runner_up!) : why.runner_up!.map((job, at) => <span key={job}>{at > 0 && ", "}<JobLink pool={pool} job={job} /></span>)) : <span class="soft">no other set was found</span>}</td>
              {bound && <td />}
            </tr>
            {levels(costs).map((level) => (
              <tr key={level.name} data-decides={level.decides}>
                <th scope="row">
                  {level.name} {level.decides && <Badge tone="accent">◂ this decided</Badge>}
                </th>
                {level.values.map((value, at) => <td key={at} class="right">{value}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {Boolean(data.spared?.length || data.dropped?.length) && (
        <p class="soft note">
          {data.spared?.length ? `Spared, as their room is not needed: ${few(data.spared)}. ` : ""}
          {data.dropped?.length ? `Proposed and not needed any more: ${few(data.dropped)}.` : ""}
        </p>
      )}
    </Card>
  );
}
