import type { PoolRow } from "../live/types";

/** Response of `/api/pools`. behind: messages not archived yet, per pool. */
export interface Pools {
  pools: PoolRow[];
  archive: { configured: boolean; answers: boolean; behind: Record<string, number> };
  kafka: { answers: boolean; since: string | null };
}
