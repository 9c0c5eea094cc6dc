import type { PoolList } from ".";
import { useFetch } from "./useFetch";

/** none: the console has no archive configured. */
export type Availability = "loading" | "none" | "there";

export interface Archive {
  state: Availability;
  /** Messages of the log that are not archived yet, per pool. */
  behind: Record<string, number>;
}

/** Whether an archive is configured, and how far it is behind. */
export function useArchive(): Archive {
  const { value, failure } = useFetch<PoolList>("/api/pools").value;
  if (!value) return { state: failure ? "none" : "loading", behind: {} };
  return { state: value.archive.configured ? "there" : "none", behind: value.archive.behind };
}
