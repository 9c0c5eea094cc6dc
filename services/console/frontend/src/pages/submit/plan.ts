import { post, poolPath, type Fault } from "../../lib/api";
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

export type Outcome = "starts" | "reserved" | "displaces" | "waits" | "rejected";

/** `bailiff plan --live -o json`. */
export interface PlanAnswer {
  job: string;
  pool: string;
  computed_at: number;
  outcome: Outcome;
  reason: string;
  nodes: string[];
  ahead: number | null;
  decision: { verb: string; victims: Victim[]; proven: boolean | null } | null;
  waiting: { reason: string; would_need: string } | null;
}

/** answer null: there are faults, and nothing was planned. */
export interface Plan {
  faults: Fault[];
  demand: string | null;
  answer: PlanAnswer | null;
  sentences: string[];
}

export const askPlan = (pool: string, yaml: string): Promise<Plan> => post(poolPath(pool, "plan"), { yaml });

export const VERDICTS: Record<Outcome, { tone: Tone; sign: string; text: string }> = {
  starts: { tone: "good", sign: "▶", text: "Starts at once" },
  reserved: { tone: "accent", sign: "◌", text: "Starts soon" },
  displaces: { tone: "warn", sign: "⇤", text: "Starts by displacing others" },
  waits: { tone: "plain", sign: "…", text: "Waits" },
  rejected: { tone: "bad", sign: "✕", text: "Would be rejected" },
};

/** One of the server's sentences; items: what it lists. */
export interface Sentence {
  text: string;
  items: string[];
}

const DISPLACING = "to displace others: ";

/** The sentences that the page does not show otherwise: victims stand in a table, the record number below it. */
export function told({ sentences, answer }: Pick<Plan, "sentences" | "answer">): Sentence[] {
  const table = Boolean(answer?.decision?.victims.length);
  const left = sentences.filter((sentence) => !/^computed at /.test(sentence) && !(table && /^\s/.test(sentence)));
  return left.map((sentence) => {
    if (sentence.startsWith(DISPLACING)) {
      return { text: "It displaces nobody:", items: sentence.slice(DISPLACING.length).split(/; (?=(?:consolidate|reclaim|preempt): )/) };
    }
    return { text: ended(sentence.trim().replace(/; for it must leave:$/, "").replace(/^in all /, "In all ")), items: [] };
  });
}

const ended = (text: string): string => (/[.:!?]$/.test(text) ? text : `${text}.`);

/** What becomes of one of them, as its sentence ends. */
export function fate(victim: Victim, sentences: string[]): string {
  if (victim.was_reserved) return "has not started, loses its reservation";
  const own = sentences.find((sentence) => sentence.trimStart().startsWith(`${victim.job} (`));
  return own?.split("; ").pop() ?? (victim.moved_to.length ? `moves to ${places(victim.moved_to)}` : "leaves");
}

/** `node-1 × 2, node-2`. */
export function places(nodes: string[]): string {
  const counts = new Map<string, number>();
  for (const node of nodes) counts.set(node, (counts.get(node) ?? 0) + 1);
  const named = [...counts].map(([node, many]) => (many > 1 ? `${node} × ${many}` : node));
  return named.length > 8 ? `${named.slice(0, 8).join(", ")} and ${named.length - 8} more` : named.join(", ");
}

/** The fault's field as the form calls it: `groups.0.gpus` and `min-tasks` are fields of the form, too. */
export const fieldOf = (fault: Fault): string => (fault.field ?? fault.where?.split(": ").pop() ?? "").replaceAll("-", "_").replace(/^groups\.0\./, "").split(".")[0]!; // prettier-ignore
