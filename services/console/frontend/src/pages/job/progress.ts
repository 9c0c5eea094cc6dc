// How far a job is, and what is saved of it.
import type { LiveJob } from "../../live/shapes";
import type { JobDetails, RecordItem } from "./shapes";

export interface Saved {
  seq: number;
  at: string;
  task: number;
  step: number;
  bytes: number;
  micros: number;
  evicted: boolean;
}

interface Checkpoint {
  step: number;
  bytes: number;
  microseconds: number;
}

/** The checkpoints on record, the newest first, each once. */
export function checkpoints(records: RecordItem[]): Saved[] {
  const seen = new Set<string>();
  return [...records]
    .sort((left, right) => right.seq - left.seq)
    .flatMap((record) => {
      const saved = record.data.checkpoint as Checkpoint | undefined;
      const [task, attempt] = [Number(record.data.task ?? 0), Number(record.data.attempt ?? 0)];
      if (!saved || seen.has(`${attempt}/${task}/${saved.step}`)) return [];
      seen.add(`${attempt}/${task}/${saved.step}`);
      const ago = Number(record.data.ago ?? 0);
      const at = ago ? new Date(Date.parse(record.time) - ago / 1000).toISOString() : record.time;
      return [{ seq: record.seq, at, task, step: saved.step, bytes: saved.bytes, micros: saved.microseconds, evicted: record.type === "EvictionStaged" }];
    });
}

export interface Progress {
  step: number | null;
  total: number | null;
  savedStep: number | null;
  savedAt: string | null;
  /** Steps that would be done again if it had to stop now without saving. */
  unsaved: number | null;
  /** Steps in a second. */
  pace: number | null;
}

export function progressOf(live: LiveJob | null, details: JobDetails | null, records: RecordItem[]): Progress {
  const newest = [...records].sort((left, right) => right.seq - left.seq);
  const first = (name: string): number | null => {
    const found = newest.find((record) => record.type === "TaskProgressed" && typeof record.data[name] === "number");
    return found ? (found.data[name] as number) : null;
  };
  const tasks = details?.task_list ?? [];
  const most = (values: (number | null)[]): number | null => values.reduce((left, right) => (right !== null && (left === null || right > left) ? right : left), null);
  const saved = checkpoints(records)[0];
  const step = live?.step ?? most(tasks.map((task) => task.step)) ?? first("step");
  const savedStep = live?.checkpoint_step ?? most(tasks.map((task) => task.checkpoint_step)) ?? saved?.step ?? null;
  const pace = first("pace");
  return {
    step,
    total: first("total"),
    savedStep,
    savedAt: live?.checkpoint_at ?? tasks.find((task) => task.checkpoint_at)?.checkpoint_at ?? saved?.at ?? null,
    unsaved: step !== null && savedStep !== null ? Math.max(0, step - savedStep) : null,
    pace: pace ? pace / 1000 : null,
  };
}
