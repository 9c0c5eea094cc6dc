import { useRef, useState } from "preact/hooks";

import { useLive } from "../live/live";
import type { LiveJob } from "../live/shapes";
import { me } from "../shell/me";
import { Button } from "../ui/Button";
import "./actions.css";
import { choices, cutOff, endedText, hasEnded, hindrances, notAllowed, type JobVerb } from "./jobRules";
import { JobDialog } from "./JobDialog";

/**
 * The buttons of a job: what may be asked for now, each with what it will cause shown before it is sent. job null: it has ended; a
 * dialog that is open by then stays, and says so.
 */
export function JobActions({ pool, job }: { pool: string; job: LiveJob | null }) {
  const live = useLive(pool);
  void live.projectsAt.value;
  const [open, show] = useState<JobVerb | null>(null);
  const known = useRef(job);
  if (job) known.current = job;
  const last = known.current;
  if (!last || (!job && !open)) return null;
  return (
    <div class="actions">
      {job && <Buttons job={job} forbidden={notAllowed(me.value, job.project, live.projects)} cut={cutOff(live.connection.value, live.told.value.kafka)} show={show} />}
      {open && <JobDialog pool={pool} job={last} over={!job || hasEnded(job) ? endedText(last.job) : null} verb={open} onClose={() => show(null)} />}
    </div>
  );
}

function Buttons({ job, forbidden, cut, show }: { job: LiveJob; forbidden: string | null; cut: string | null; show: (verb: JobVerb) => void }) {
  if (hasEnded(job)) return null;
  if (forbidden !== null) return <p class="why-not">{forbidden}</p>;
  const found = choices(job);
  return (
    <>
      <div class="buttons">
        {found.map(({ verb, name, hindrance }) => (
          <Button key={verb} danger={verb === "cancel"} disabled={hindrance !== null || cut !== null} onClick={() => show(verb)}>
            {name}
          </Button>
        ))}
      </div>
      {cut ? <p class="why-not">{cut}</p> : <WhyNot texts={hindrances(found)} />}
    </>
  );
}

function WhyNot({ texts }: { texts: string[] }) {
  if (!texts.length) return null;
  return (
    <ul class="why-not">
      {texts.map((text) => (
        <li key={text}>{text}</li>
      ))}
    </ul>
  );
}
