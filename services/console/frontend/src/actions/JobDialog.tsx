import { useState } from "preact/hooks";

import type { LiveJob } from "../live/shapes";
import type { JobVerb } from "./jobRules";
import { MigrateDialog } from "./MigrateDialog";
import { RequestDialog } from "./RequestDialog";
import { filled } from "./requests";
import { ScaleDialog } from "./ScaleDialog";
import { SetDialog } from "./SetDialog";

export interface OfJob {
  pool: string;
  job: LiveJob;
  /** Why it is too late to ask anything; null: it is not. */
  over: string | null;
  onClose: () => void;
}

export function JobDialog({ verb, ...of }: OfJob & { verb: JobVerb }) {
  switch (verb) {
    case "migrate":
      return <MigrateDialog {...of} />;
    case "scale":
      return <ScaleDialog {...of} />;
    case "set":
      return <SetDialog {...of} />;
    default:
      return <PlainDialog {...of} verb={verb} />;
  }
}

const TITLES = { pause: "Pause", resume: "Resume", evict: "Evict", cancel: "Cancel" } as const;

/** Those for which there is nothing to say but why. */
function PlainDialog({ pool, job, over, verb, onClose }: OfJob & { verb: keyof typeof TITLES }) {
  const [reason, say] = useState("");
  const asked = { kind: verb, ...filled({ job: job.job, reason }) };
  return (
    <RequestDialog pool={pool} title={`${TITLES[verb]} ${job.job}`} verb={verb === "cancel" ? "Cancel the job" : TITLES[verb]} danger={verb === "cancel"} asked={asked} over={over} onClose={onClose} reason={{ value: reason, say }} />
  );
}
