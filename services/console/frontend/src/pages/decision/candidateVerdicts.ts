// The victim candidates of a proposal: their verdicts and order.
import type { Candidate, Explanation } from "../../api";
import { ruleText } from "../../lib";

export type Verdict = "chosen" | "eligible" | "protected";

export const candidateVerdict = (row: Candidate): Verdict => (row.chosen ? "chosen" : row.rule ? "protected" : "eligible");
const ORDER: Verdict[] = ["chosen", "eligible", "protected"];

/** Chosen candidates, then eligible ones (least work lost first), then protected ones by rule; of one job in the order in which it loses them. */
export function sortedCandidates(rows: Candidate[]): Candidate[] {
  const first = new Map<string, number>();
  const group = (row: Candidate) => `${row.action} ${candidateVerdict(row)} ${row.rule} ${row.job}`;
  for (const row of rows) if (!first.has(group(row))) first.set(group(row), row.lost_gpu_ms);
  return [...rows].sort(
    (left, right) =>
      ORDER.indexOf(candidateVerdict(left)) - ORDER.indexOf(candidateVerdict(right)) ||
      compare(left.rule, right.rule) ||
      left.priority - right.priority ||
      first.get(group(left))! - first.get(group(right))! ||
      compare(group(left), group(right)),
  );
}

const compare = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0);

export function counts(rows: Candidate[]): Record<Verdict, number> {
  const found = { chosen: 0, eligible: 0, protected: 0 };
  for (const row of rows) found[candidateVerdict(row)] += 1;
  return found;
}

export interface Group {
  action: string;
  rule: string;
  jobs: number;
  examples: string[];
  text: string;
}

/** Excluded candidates from the record, by action and rule, with examples. */
export function excludedGroups(action: string, why: Explanation | undefined): Group[] {
  const all = [...(why?.attempted_actions ?? []).map((tried) => ({ action: tried.action, excluded: tried.excluded })), { action, excluded: why?.excluded }];
  return all.flatMap((each) => (each.excluded ?? []).map((group) => ({ action: each.action, rule: group.rule, jobs: group.jobs, examples: group.examples ?? [], text: ruleText(group.rule) })));
}
