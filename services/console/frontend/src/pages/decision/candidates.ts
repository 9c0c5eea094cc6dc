// Everybody that held room when the answer was computed, in an order that people ask in.
import { ruleSays } from "../../lib/terms";
import type { Candidate, Explanation } from "./shapes";

export type Verdict = "chosen" | "free" | "shielded";

export const verdictOf = (row: Candidate): Verdict => (row.chosen ? "chosen" : row.rule ? "shielded" : "free");
const ORDER: Verdict[] = ["chosen", "free", "shielded"];

/** The chosen ones, then who could have been taken (least lost first), then who was shielded, by rule. */
export function ordered(rows: Candidate[]): Candidate[] {
  return [...rows].sort(
    (left, right) =>
      ORDER.indexOf(verdictOf(left)) - ORDER.indexOf(verdictOf(right)) ||
      compare(left.rule, right.rule) ||
      left.priority - right.priority ||
      left.lost_gpu_ms - right.lost_gpu_ms ||
      compare(left.job, right.job) ||
      compare(left.tasks, right.tasks),
  );
}

const compare = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0);

export function counts(rows: Candidate[]): Record<Verdict, number> {
  const found = { chosen: 0, free: 0, shielded: 0 };
  for (const row of rows) found[verdictOf(row)] += 1;
  return found;
}

export interface Group {
  verb: string;
  rule: string;
  jobs: number;
  examples: string[];
  says: string;
}

/** What the record itself says of those left out: by verb and rule, a few by name. */
export function groupsOf(verb: string, why: Explanation | undefined): Group[] {
  const all = [...(why?.tried ?? []).map((tried) => ({ verb: tried.verb, excluded: tried.excluded })), { verb, excluded: why?.excluded }];
  return all.flatMap((each) => (each.excluded ?? []).map((group) => ({ verb: each.verb, rule: group.rule, jobs: group.jobs, examples: group.examples ?? [], says: ruleSays(group.rule) })));
}
