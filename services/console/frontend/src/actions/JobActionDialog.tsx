import { useState } from "preact/hooks";

import type { LiveJob } from "../live/types";
import type { JobAction } from "./allowedActions";
import { MigrateDialog } from "./MigrateDialog";
import { RequestDialog } from "./RequestDialog";
import { withoutEmpty } from "./requests";
import { ScaleDialog } from "./ScaleDialog";
import { SetClassDialog } from "./SetClassDialog";

export interface JobDialogProps {
  pool: string;
  job: LiveJob;
  /** Why no request is possible any more, as the job has ended; null: it has not. */
  endedMessage: string | null;
  onClose: () => void;
}

export function JobActionDialog({ action, ...of }: JobDialogProps & { action: JobAction }) {
  switch (action) {
    case "migrate":
      return <MigrateDialog {...of} />;
    case "scale":
      return <ScaleDialog {...of} />;
    case "set":
      return <SetClassDialog {...of} />;
    default:
      return <ReasonDialog {...of} action={action} />;
  }
}

const TITLES = { pause: "Pause", resume: "Resume", evict: "Evict", cancel: "Cancel" } as const;

/** Actions with no input but a reason. */
function ReasonDialog({ pool, job, endedMessage, action, onClose }: JobDialogProps & { action: keyof typeof TITLES }) {
  const [reason, setReason] = useState("");
  const request = { kind: action, ...withoutEmpty({ job: job.job, reason }) };
  return (
    <RequestDialog pool={pool} title={`${TITLES[action]} ${job.job}`} action={action === "cancel" ? "Cancel job" : TITLES[action]} danger={action === "cancel"} request={request} endedMessage={endedMessage} onClose={onClose} reason={{ value: reason, setReason }} />
  );
}
