// The way out of a victim, stage by stage, as it is told to people.
import type { LiveEviction } from "../../live/shapes";
import type { Eviction, RecordItem } from "./shapes";

export interface Stage {
  name: string;
  sign: string;
  word: string;
  at: string | null;
  /** Seconds since the decision. */
  after: number | null;
}

const WORDS: [string, string, string][] = [
  ["begun", "▸", "its nodes are told"],
  ["noticed", "N", "notice"],
  ["acknowledged", "A", "heard"],
  ["step_confirmed", "A", "step confirmed"],
  ["step_agreed", "A", "ranks agree on a step"],
  ["checkpoint_started", "C", "saving"],
  ["saving_in_flight", "C", "saving"],
  ["checkpoint_committed", "C", "checkpoint saved"],
  ["yielding", "Y", "yields"],
  ["term_sent", "T", "TERM"],
  ["kill_sent", "K", "KILL"],
  ["exited", "X", "processes ended"],
  ["stuck", "!", "stuck"],
  ["released", "R", "GPUs proved free"],
  ["withdrawn", "↩", "taken back"],
  ["resumed", "▶", "runs again"],
];

/** Those that were reached, in the order of time (and of the way out where two have one time). */
export function stagesOf(eviction: Pick<Eviction, "decided_at" | "stages">): Stage[] {
  const decided = Date.parse(eviction.decided_at);
  const found = WORDS.flatMap(([name, sign, word], place) => {
    const at = eviction.stages[name];
    return at ? [{ name, sign, word, at, after: (Date.parse(at) - decided) / 1000, place }] : [];
  });
  found.sort((left, right) => left.after - right.after || left.place - right.place);
  const first: Stage = { name: "decided", sign: "D", word: "decided", at: eviction.decided_at, after: 0 };
  return [first, ...found.map(({ place: _, ...stage }) => stage)];
}

/** As far as the live row knows. */
export function stagesNow(eviction: LiveEviction): Stage[] {
  const stage: Stage = { name: "decided", sign: "D", word: "decided", at: null, after: null };
  const word = WORDS.find(([name]) => name === eviction.stage);
  const begun: Stage[] = eviction.began_at ? [{ name: "begun", sign: "▸", word: "its nodes are told", at: eviction.began_at, after: null }] : [];
  return word && word[0] !== "begun" ? [stage, ...begun, { name: word[0], sign: word[1], word: word[2], at: null, after: null }] : [stage, ...begun];
}

/** `0 s`, `0.4 s`, `12 s`: how long after the decision. */
export const afterText = (seconds: number): string => (seconds > 0 && seconds < 9.95 ? `+${Math.round(seconds * 10) / 10} s` : `+${Math.round(seconds)} s`);

export interface Proof {
  seq: number;
  at: string;
  task: number;
  node: string;
  devices: number;
  /** Bytes in use on its GPUs before and after, processes on them after; null: the record does not say. */
  before: number | null;
  after: number | null;
  processes: number | null;
}

interface Reading {
  memory_used: number;
  processes: number;
}

/** The readings with which each task's release of this attempt is proved. */
export function proofsOf(records: RecordItem[], attempt: number): Proof[] {
  return records
    .filter((record) => record.type === "TaskReleased" && record.data.attempt === attempt)
    .map((record) => {
      const before = (record.data.before ?? []) as Reading[];
      const after = (record.data.after ?? []) as Reading[];
      return {
        seq: record.seq, at: record.time, task: Number(record.data.task ?? 0), node: String(record.data.node ?? ""),
        devices: after.length, before: used(before), after: used(after), processes: after.length ? after.reduce((sum, each) => sum + each.processes, 0) : null,
      };
    });
}

const used = (readings: Reading[]): number | null => (readings.length ? readings.reduce((sum, each) => sum + each.memory_used, 0) : null);
