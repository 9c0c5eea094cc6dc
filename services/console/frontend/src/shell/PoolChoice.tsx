import { useLocation } from "preact-iso";
import { useEffect } from "preact/hooks";

import { count } from "../lib/words";
import { Card } from "../ui/Card";
import { Empty } from "../ui/Empty";
import type { Pools } from "./pools";

/** The first page: the only pool, or a choice. */
export function PoolChoice({ pools }: { pools: Pools }) {
  const { route } = useLocation();
  const only = pools.pools.length === 1 ? pools.pools[0]!.pool : null;
  useEffect(() => {
    if (only !== null) route(`/${encodeURIComponent(only)}`, true);
  }, [only]);
  if (only !== null) return null;
  if (!pools.pools.length) {
    return (
      <Empty title="No pool has a log yet">
        A pool is there from the moment admission writes its first record. <code>bailiff doctor</code> says what is missing.
      </Empty>
    );
  }
  return (
    <div class="page">
      <h1>Pools</h1>
      <div class="cards">
        {pools.pools.map((row) => (
          <Card key={row.pool} title={<a href={`/${encodeURIComponent(row.pool)}`}>{row.pool}</a>}>
            {count(row.nodes, "node")}, {count(row.gpus, "GPU")}, {row.gpus_free} free; {count(row.jobs_running, "job")} running,{" "}
            {row.jobs_waiting} waiting
          </Card>
        ))}
      </div>
    </div>
  );
}
