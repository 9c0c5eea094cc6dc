import { useRef, useState } from "preact/hooks";

import { poolPath, useFetch, type LiveJob } from "../api";
import { currentUser, useLive } from "../live";
import { Button } from "../ui";
import { JobActionDialog } from "./ActionDialog";
import { actionChoices, disabledReasons, endedText, hasEnded, JOB_ACTIONS, offlineReason, permissionError, permittedChoices, type JobAction, type Permissions } from "./allowedActions";
import "./actions.css";

/**
 * The action buttons of a job. Each opens a dialog that previews the effects before the request is sent. job null: it has ended; an
 * open dialog stays and says so.
 */
export function JobActions({ pool, job }: { pool: string; job: LiveJob | null }) {
  const live = useLive(pool);
  void live.projectsVersion.value;
  const [open, openDialog] = useState<JobAction | null>(null);
  const known = useRef(job);
  if (job) known.current = job;
  const last = known.current;
  if (!last || (!job && !open)) return null;
  return (
    <div class="stack actions">
      {job && <Buttons pool={pool} job={job} denied={permissionError(currentUser.value, job.project, live.projects)} offline={offlineReason(live.connection.value, live.consoleState.value.kafka)} openDialog={openDialog} />}
      {open && <JobActionDialog pool={pool} job={last} endedMessage={!job || hasEnded(job) ? endedText(last.job) : null} action={open} onClose={() => openDialog(null)} />}
    </div>
  );
}

function Buttons({ pool, job, denied, offline, openDialog }: { pool: string; job: LiveJob; denied: string | null; offline: string | null; openDialog: (action: JobAction) => void }) {
  const permissions = useFetch<Permissions>(denied === null && !hasEnded(job) ? poolPath(pool, "jobs", job.job, "permissions") : null, job.job).value.value;
  if (hasEnded(job)) return null;
  if (denied !== null) return <p class="disabled-reasons">{denied}</p>;
  const found = permittedChoices(actionChoices(job), permissions);
  return (
    <>
      <div class="row buttons">
        {found.map(({ action, name, disabledReason }) => (
          <Button key={action} danger={JOB_ACTIONS[action].danger} disabled={disabledReason !== null || offline !== null} onClick={() => openDialog(action)}>
            {name}
          </Button>
        ))}
      </div>
      {offline ? <p class="disabled-reasons">{offline}</p> : <WhyNot texts={disabledReasons(found)} />}
    </>
  );
}

function WhyNot({ texts }: { texts: string[] }) {
  if (!texts.length) return null;
  return (
    <ul class="disabled-reasons">
      {texts.map((text) => (
        <li key={text}>{text}</li>
      ))}
    </ul>
  );
}
