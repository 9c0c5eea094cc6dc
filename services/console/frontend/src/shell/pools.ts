import type { PoolRow } from "../live/shapes";

/** `/api/pools`. behind: per pool, messages of the log that are not archived yet. */
export interface Pools {
  pools: PoolRow[];
  archive: { configured: boolean; answers: boolean; behind: Record<string, number> };
  kafka: { answers: boolean; since: string | null };
}
