import type { JobHistory } from "../../api";
import { stopWord, times } from "../../lib";

/** `, preempted 2 times, evicted once; it resumed each time` */
export function evictedText(whole: Pick<JobHistory, "evictions"> | null): string {
  const carried = (whole?.evictions ?? []).filter((each) => each.outcome !== "eviction-cancelled");
  if (!carried.length) return "";
  const counts = new Map<string, number>();
  for (const { cause } of carried) counts.set(stopWord(cause), (counts.get(stopWord(cause)) ?? 0) + 1);
  const parts = [...counts].map(([word, number]) => `${word} ${times(number)}`);
  if (carried.every((each) => each.cause === "cancelled")) return `, ${parts.join(", ")}`;
  const resumed = carried.filter((each) => each.stages.resumed).length;
  return `, ${parts.join(", ")}; it ${resumed === 0 ? "has not resumed" : `resumed ${resumed === carried.length && resumed > 1 ? "each time" : times(resumed)}`}`;
}
