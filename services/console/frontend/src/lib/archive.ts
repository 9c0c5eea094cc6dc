import type { Pools } from "../shell/pools";
import { useLoad } from "./load";

/** none: this console has no archive to ask. */
export type ArchiveState = "loading" | "none" | "there";

export interface Archive {
  state: ArchiveState;
  /** Messages of the log that are not archived yet, by pool. */
  behind: Record<string, number>;
}

/** Whether there is an archive to ask. */
export function useArchive(): Archive {
  const { value, failure } = useLoad<Pools>("/api/pools").value;
  if (!value) return { state: failure ? "none" : "loading", behind: {} };
  return { state: value.archive.configured ? "there" : "none", behind: value.archive.behind };
}
