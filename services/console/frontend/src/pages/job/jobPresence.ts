// Whether a job exists, from three sources that may each be unavailable: the live state, the job's details, the archive.
import type { ApiError, Availability, JobHistory, JobPage, LiveJob } from "../../api";
import type { Connection } from "../../live";

/** live: it has not ended. unsure: not in the live state, and the archive is unavailable. */
type Presence = "loading" | "live" | "ended" | "unknown" | "unsure" | "failed";

interface FetchState<T> {
  value: T | undefined;
  failure: ApiError | undefined;
}

export interface Sources {
  connection: Connection;
  live: LiveJob | null;
  details: FetchState<JobPage>;
  whole: FetchState<JobHistory>;
  archive: Availability;
}

export function jobPresence({ connection, live, details, whole, archive }: Sources): Presence {
  if (live) return "live";
  if (connection === "opening" && !details.failure) return "loading";
  if (details.value || whole.value) return "ended";
  if (!details.failure) return "loading";
  if (archive === "loading" || (archive === "there" && !whole.failure)) return "loading";
  if (details.failure.status !== 404) return "failed";
  return archive === "there" && whole.failure?.status === 404 ? "unknown" : "unsure";
}
