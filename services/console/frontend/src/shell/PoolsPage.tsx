import { useLocation } from "preact-iso";
import { useEffect } from "preact/hooks";

import type { PoolList } from "../api";
import { count } from "../lib";
import { Card, EmptyState, pagePath } from "../ui";
import { Shown } from "./Shown";

/** The start page: the list of pools; with a single pool, redirects to it. */
export function PoolsPage({ pools }: { pools: PoolList }) {
  const { route } = useLocation();
  const only = pools.pools.length === 1 ? pools.pools[0]!.pool : null;
  useEffect(() => {
    if (only !== null) route(pagePath(only, ["overview"]), true);
  }, [only]);
  if (only !== null) return null;
  if (!pools.pools.length) {
    return (
      <Shown>
        <EmptyState title="No pool exists yet">
          A pool is created when admission writes its first record. Run <code>bailiff doctor</code> to see what is missing.
        </EmptyState>
      </Shown>
    );
  }
  return (
    <Shown>
      <div class="stack page">
        <h1>Pools</h1>
        <div class="cards">
          {pools.pools.map((row) => (
            <Card key={row.pool} title={<a href={pagePath(row.pool, ["overview"])}>{row.pool}</a>}>
              {count(row.nodes, "node")}, {count(row.gpus, "GPU")}, {row.gpus_free} free; {count(row.jobs_running, "job")} running,{" "}
              {row.jobs_pending} pending
            </Card>
          ))}
        </div>
      </div>
    </Shown>
  );
}
