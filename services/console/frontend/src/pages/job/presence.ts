// Whether there is such a job, from three sources that may each be silent: the live board, the live fold, the archive.
import type { Refusal } from "../../lib/api";
import type { ArchiveState } from "../../lib/archive";
import type { Connection } from "../../live/live";
import type { LiveJob } from "../../live/shapes";
import type { JobDetails, JobWhole } from "./shapes";

/** live: it has not ended. unsure: the live state does not know it, and the archive cannot be asked. */
export type Presence = "loading" | "live" | "ended" | "unknown" | "unsure" | "failed";

interface Asked<T> {
  value: T | undefined;
  failure: Refusal | undefined;
}

export interface Sources {
  connection: Connection;
  live: LiveJob | null;
  details: Asked<JobDetails>;
  whole: Asked<JobWhole>;
  archive: ArchiveState;
}

export function presenceOf({ connection, live, details, whole, archive }: Sources): Presence {
  if (live) return "live";
  if (connection === "opening" && !details.failure) return "loading";
  if (details.value || whole.value) return "ended";
  if (!details.failure) return "loading";
  if (archive === "loading" || (archive === "there" && !whole.failure)) return "loading";
  if (details.failure.status !== 404) return "failed";
  return archive === "there" && whole.failure?.status === 404 ? "unknown" : "unsure";
}
