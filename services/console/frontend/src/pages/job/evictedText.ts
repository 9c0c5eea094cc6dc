import type { JobHistory } from "../../api";
import { times } from "../../lib";

/** `, preempted 2 times, evicted once for other reasons; it resumed each time` */
export function evictedText(whole: Pick<JobHistory, "evictions"> | null): string {
  const carried = (whole?.evictions ?? []).filter((each) => each.outcome !== "eviction-cancelled");
  const preempted = carried.filter((each) => each.cause === "preemption").length;
  const others = carried.length - preempted;
  if (!carried.length) return "";
  const parts = [...(preempted ? [`preempted ${times(preempted)}`] : []), ...(others ? [`evicted ${times(others)}${preempted ? " for other reasons" : ""}`] : [])];
  const resumed = carried.filter((each) => each.stages.resumed).length;
  return `, ${parts.join(", ")}; it ${resumed === 0 ? "has not resumed" : `resumed ${resumed === carried.length && resumed > 1 ? "each time" : times(resumed)}`}`;
}
