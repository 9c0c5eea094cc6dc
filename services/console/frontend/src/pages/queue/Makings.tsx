import { now } from "../../lib/clock";
import { gpusText } from "../../lib/terms";
import { duration, moment } from "../../lib/words";
import type { LiveJob } from "../../live/shapes";
import { Badge } from "../../ui/Badge";
import { DecisionLink, JobLink } from "../../ui/Links";
import { makingText, stageText, type Making } from "./making";
import "./making.css";

const NAMED = 6;

/** Who leaves now, for whom, and how long that may take at most. */
export function Makings({ pool, makings, most = makings.length }: { pool: string; makings: readonly Making[]; most?: number }) {
  return (
    <>
      <ul class="makings">
        {makings.slice(0, most).map((making) => (
          <li key={making.key} class="making">
            <div class="making-head">
              {making.name !== null ? (
                <>
                  <strong>
                    <JobLink pool={pool} job={making.name} />
                  </strong>
                  {making.asker && (
                    <span class="soft">
                      {making.asker.project && `${making.asker.project}, `}
                      {making.asker.class}, {gpusText(making.asker)}
                    </span>
                  )}
                </>
              ) : (
                <strong>For no other job</strong>
              )}
              <span>{makingText(making)}</span>
              {making.deadline && <Grace at={making.deadline} />}
            </div>
            <ul class="leavers">
              {making.leaving.slice(0, NAMED).map((job) => (
                <Leaver key={job.job} pool={pool} job={job} />
              ))}
              {making.leaving.length > NAMED && <li class="soft">and {making.leaving.length - NAMED} more</li>}
            </ul>
          </li>
        ))}
      </ul>
      {makings.length > most && (
        <p class="soft">
          And {makings.length - most} more: <a href={`/${encodeURIComponent(pool)}/queue`}>the queue</a>.
        </p>
      )}
    </>
  );
}

function Leaver({ pool, job }: { pool: string; job: LiveJob }) {
  const eviction = job.eviction!;
  return (
    <li>
      <JobLink pool={pool} job={job.job} /> <span>{stageText(eviction.stage)}</span>
      <span class="soft">
        {" "}
        ({job.project && `${job.project}, `}
        {gpusText(job)}, decided in <DecisionLink pool={pool} seq={eviction.decided_seq} />)
      </span>
    </li>
  );
}

function Grace({ at }: { at: string }) {
  const left = (Date.parse(at) - now.value) / 1000;
  return (
    <Badge tone="warn" title={`Until ${moment(at)}`}>
      <span aria-hidden="true">⇤</span> {left > 0 ? `at most ${duration(left)} more` : "grace is over"}
    </Badge>
  );
}
