import { poolPath, post, type ErrorDetail, type JobPlan, type LivePlan } from "../api";
import type { Tone } from "../ui";

export const fetchPlan = (pool: string, yaml: string): Promise<JobPlan> => post(poolPath(pool, "plan"), { yaml });

export const VERDICTS: Record<LivePlan["outcome"], { tone: Tone; sign: string; text: string }> = {
  starts: { tone: "good", sign: "▶", text: "Starts immediately" },
  reserved: { tone: "accent", sign: "◌", text: "Reserved, starts soon" },
  preempts: { tone: "warn", sign: "⇤", text: "Starts by preemption" },
  pending: { tone: "plain", sign: "…", text: "Pending" },
  rejected: { tone: "bad", sign: "✕", text: "Would be rejected" },
};

/** A sentence of the plan; items: its list. */
interface Sentence {
  text: string;
  items: string[];
}

const PREEMPTION_PREFIX = "to preempt other jobs: ";

/** The plan's sentences without those shown elsewhere: victims are in a table, the record number is below it. */
export function planSentences({ sentences, answer }: Pick<JobPlan, "sentences" | "answer">): Sentence[] {
  const table = Boolean(answer?.decision?.victims?.length);
  const left = sentences.filter((sentence) => !/^computed at /.test(sentence) && !(table && /^\s/.test(sentence)));
  return left.map((sentence) => {
    if (sentence.startsWith(PREEMPTION_PREFIX)) {
      return { text: "No preemption possible:", items: sentence.slice(PREEMPTION_PREFIX.length).split(/; (?=(?:consolidate|reclaim|preempt): )/) };
    }
    return { text: withPeriod(sentence.trim().replace(/; it would preempt:$/, "").replace(/^total: /, "Total: ")), items: [] };
  });
}

const withPeriod = (text: string): string => (/[.:!?]$/.test(text) ? text : `${text}.`);

/** The form field of an error: `groups.0.gpus` and `min-tasks` map to form fields. */
export const errorField = (error: ErrorDetail): string => (error.location ?? "").replaceAll("-", "_").replace(/^groups\.0\./, "").split(".")[0]!;
