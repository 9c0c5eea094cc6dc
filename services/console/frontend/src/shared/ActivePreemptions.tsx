import type { LiveJob } from "../api";
import { allocatedText, duration, gpusText, moment, now, stageText } from "../lib";
import { Badge, DecisionLink, JobLink, pagePath } from "../ui";
import { preemptionText, type PreemptionGroup } from "./preemptionGroups";
import "./preemptions.css";

const NAMED = 6;

/** Evictions in progress, by preemptor, with the remaining grace period. */
export function ActivePreemptions({ pool, preemptionGroups, most = preemptionGroups.length }: { pool: string; preemptionGroups: readonly PreemptionGroup[]; most?: number }) {
  return (
    <>
      <ul class="stack preemptions">
        {preemptionGroups.slice(0, most).map((group) => (
          <li key={group.key} class="preemption">
            <div class="row preemption-head">
              {group.name !== null ? (
                <>
                  <strong>
                    <JobLink pool={pool} job={group.name} />
                  </strong>
                  {group.preemptor && (
                    <span class="soft">
                      {group.preemptor.project && `${group.preemptor.project}, `}
                      {group.preemptor.priority_class}, {gpusText(group.preemptor)}
                    </span>
                  )}
                </>
              ) : (
                <strong>No preemptor</strong>
              )}
              <span>{preemptionText(group)}</span>
              {group.deadline && <Grace at={group.deadline} />}
            </div>
            <ul class="victims">
              {group.evicting.slice(0, NAMED).map((job) => (
                <EvictedJob key={job.job} pool={pool} job={job} />
              ))}
              {group.evicting.length > NAMED && <li class="soft">and {group.evicting.length - NAMED} more</li>}
            </ul>
          </li>
        ))}
      </ul>
      {preemptionGroups.length > most && (
        <p class="soft">
          And {preemptionGroups.length - most} more: <a href={pagePath(pool, ["queue"])}>the queue</a>.
        </p>
      )}
    </>
  );
}

function EvictedJob({ pool, job }: { pool: string; job: LiveJob }) {
  const eviction = job.eviction!;
  return (
    <li>
      <JobLink pool={pool} job={job.job} /> <span>{stageText(eviction.stage)}</span>
      <span class="soft">
        {" "}
        ({job.project && `${job.project}, `}
        {allocatedText(job)}, decision <DecisionLink pool={pool} seq={eviction.decided_seq} />)
      </span>
    </li>
  );
}

function Grace({ at }: { at: string }) {
  const left = (Date.parse(at) - now.value) / 1000;
  return (
    <Badge tone="warn" title={`Until ${moment(at)}`}>
      <span aria-hidden="true">⇤</span> {left > 0 ? `${duration(left)} of grace left` : "grace period ended"}
    </Badge>
  );
}
