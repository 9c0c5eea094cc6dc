import { post, poolPath, type ErrorDetail } from "../../lib/api";
import type { Tone } from "../../ui/Badge";

export interface Victim {
  job: string;
  project: string | null;
  priority: number;
  tasks: string[];
  gpus: number;
  lost_gpu_seconds: number;
  stopped: boolean;
  was_reserved: boolean;
  moved_to: string[];
}

export type Outcome = "starts" | "reserved" | "preempts" | "pending" | "rejected";

/** `bailiff plan --live -o json`. */
export interface PlanAnswer {
  job: string;
  pool: string;
  computed_at: number;
  outcome: Outcome;
  reason: string;
  nodes: string[];
  jobs_ahead: number | null;
  decision: { action: string; victims: Victim[]; proven: boolean | null } | null;
  pending: { reason: string; would_need: string } | null;
}

/** Response of `/plan`. answer null: the job has errors, and nothing was planned. */
export interface Plan {
  errors: ErrorDetail[];
  demand: string | null;
  answer: PlanAnswer | null;
  sentences: string[];
}

export const fetchPlan = (pool: string, yaml: string): Promise<Plan> => post(poolPath(pool, "plan"), { yaml });

export const VERDICTS: Record<Outcome, { tone: Tone; sign: string; text: string }> = {
  starts: { tone: "good", sign: "▶", text: "Starts immediately" },
  reserved: { tone: "accent", sign: "◌", text: "Reserved, starts soon" },
  preempts: { tone: "warn", sign: "⇤", text: "Starts by preemption" },
  pending: { tone: "plain", sign: "…", text: "Pending" },
  rejected: { tone: "bad", sign: "✕", text: "Would be rejected" },
};

/** A sentence of the plan; items: its list. */
export interface Sentence {
  text: string;
  items: string[];
}

const PREEMPTION_PREFIX = "to preempt other jobs: ";

/** The plan's sentences without those shown elsewhere: victims are in a table, the record number is below it. */
export function planSentences({ sentences, answer }: Pick<Plan, "sentences" | "answer">): Sentence[] {
  const table = Boolean(answer?.decision?.victims.length);
  const left = sentences.filter((sentence) => !/^computed at /.test(sentence) && !(table && /^\s/.test(sentence)));
  return left.map((sentence) => {
    if (sentence.startsWith(PREEMPTION_PREFIX)) {
      return { text: "No preemption possible:", items: sentence.slice(PREEMPTION_PREFIX.length).split(/; (?=(?:consolidate|reclaim|preempt): )/) };
    }
    return { text: withPeriod(sentence.trim().replace(/; it would preempt:$/, "").replace(/^total: /, "Total: ")), items: [] };
  });
}

const withPeriod = (text: string): string => (/[.:!?]$/.test(text) ? text : `${text}.`);

/** What happens to a victim: the end of its sentence. */
export function victimOutcome(victim: Victim, sentences: string[]): string {
  if (victim.was_reserved) return "loses its reservation (not started)";
  const own = sentences.find((sentence) => sentence.trimStart().startsWith(`${victim.job} (`));
  return own?.split("; ").pop() ?? (victim.moved_to.length ? `migrates to ${nodeCounts(victim.moved_to)}` : "evicted");
}

/** `node-1 × 2, node-2`. */
export function nodeCounts(nodes: string[]): string {
  const counts = new Map<string, number>();
  for (const node of nodes) counts.set(node, (counts.get(node) ?? 0) + 1);
  const named = [...counts].map(([node, many]) => (many > 1 ? `${node} × ${many}` : node));
  return named.length > 8 ? `${named.slice(0, 8).join(", ")} and ${named.length - 8} more` : named.join(", ");
}

/** The form field of an error: `groups.0.gpus` and `min-tasks` map to form fields. */
export const errorField = (error: ErrorDetail): string => (error.location ?? "").replaceAll("-", "_").replace(/^groups\.0\./, "").split(".")[0]!;
