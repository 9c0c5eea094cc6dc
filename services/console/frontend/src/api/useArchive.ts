import type { PoolList } from ".";
import { useFetch } from "./useFetch";

/** none: the console has no archive configured. */
export type Availability = "loading" | "none" | "there";

export interface Archive {
  state: Availability;
}

/** Whether an archive is configured. */
export function useArchive(): Archive {
  const { value, failure } = useFetch<PoolList>("/api/pools").value;
  if (!value) return { state: failure ? "none" : "loading" };
  return { state: value.archive.configured ? "there" : "none" };
}
