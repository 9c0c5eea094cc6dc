// The stages of an eviction, in their order, with their signs.
import type { Eviction, EvictionView, RecordItem } from "../../api";
import { duration, stageText } from "../../lib";

const SIGNS: Record<string, string> = { started: "▸", noticed: "N", acknowledged: "A", step_confirmed: "A", step_agreed: "A", checkpoint_started: "C", saving_in_flight: "C", checkpoint_committed: "C", yielding: "Y", term_sent: "T", kill_sent: "K", frozen: "F", dumped: "D", stored: "S", save_failed: "!", parked: "P", park_failed: "!", park_lost: "!", exited: "X", stuck: "!", released: "R", cancelled: "↩", resumed: "▶" };

export interface Stage {
  name: string;
  sign: string;
  word: string;
  at: string | null;
  /** Seconds since the decision. */
  after: number | null;
}

/** The stages reached, by time (and by the order of the stages where times are equal). */
export function evictionStages(eviction: Pick<Eviction, "decided_at" | "stages">): Stage[] {
  const decided = Date.parse(eviction.decided_at);
  const found = Object.entries(SIGNS).flatMap(([name, sign], place) => {
    const at = eviction.stages[name];
    return at ? [{ name, sign, word: stageText(name), at, after: (Date.parse(at) - decided) / 1000, place }] : [];
  });
  found.sort((left, right) => left.after - right.after || left.place - right.place);
  const first: Stage = { name: "decided", sign: "D", word: "decided", at: eviction.decided_at, after: 0 };
  return [first, ...found.map(({ place: _, ...stage }) => stage)];
}

/** The stages known from the live row. */
export function liveStages(eviction: EvictionView): Stage[] {
  const stage: Stage = { name: "decided", sign: "D", word: "decided", at: null, after: null };
  const sign = SIGNS[eviction.stage];
  const started: Stage[] = eviction.started_at ? [{ name: "started", sign: "▸", word: "started", at: eviction.started_at, after: null }] : [];
  return sign && eviction.stage !== "started" ? [stage, ...started, { name: eviction.stage, sign, word: stageText(eviction.stage), at: null, after: null }] : [stage, ...started];
}

/** `+400ms`, `+12s`: how long after the decision. */
export const afterText = (seconds: number): string => `+${duration(seconds)}`;

export interface Proof {
  seq: number;
  at: string;
  task: number;
  node: string;
  devices: number;
  /** Bytes in use on its GPUs before and after, processes on them after; null: not recorded. */
  before: number | null;
  after: number | null;
  processes: number | null;
}

interface Reading {
  memory_used: number;
  processes: number;
}

/** The device readings that prove the release of each task of this attempt. */
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

/** Proofs that say the same of tasks on one node together, in the order of the tasks. */
export function alikeProofs(proofs: Proof[]): [Proof, ...Proof[]][] {
  const groups = new Map<string, [Proof, ...Proof[]]>();
  for (const proof of [...proofs].sort((one, other) => one.task - other.task)) {
    const key = [proof.node, proof.devices, proof.before, proof.after, proof.processes].join();
    const group = groups.get(key);
    if (group) group.push(proof);
    else groups.set(key, [proof]);
  }
  return [...groups.values()];
}

const used = (readings: Reading[]): number | null => (readings.length ? readings.reduce((sum, each) => sum + each.memory_used, 0) : null);
