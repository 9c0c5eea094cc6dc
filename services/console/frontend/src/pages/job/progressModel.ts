// A job's progress and checkpoints, from its live row, its tasks and its records.
import type { JobPage, LiveJob, RecordItem } from "../../api";

interface CheckpointRow {
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
  duration: number;
}

/** The recorded checkpoints, newest first, each once. */
export function checkpoints(records: RecordItem[]): CheckpointRow[] {
  const seen = new Set<string>();
  return [...records]
    .sort((left, right) => right.seq - left.seq)
    .flatMap((record) => {
      const saved = record.data.checkpoint as Checkpoint | undefined;
      const [task, attempt] = [Number(record.data.task ?? 0), Number(record.data.attempt ?? 0)];
      if (!saved || seen.has(`${attempt}/${task}/${saved.step}`)) return [];
      seen.add(`${attempt}/${task}/${saved.step}`);
      const ago = Number(record.data.checkpoint_age ?? 0);
      const at = ago ? new Date(Date.parse(record.time) - ago / 1000).toISOString() : record.time;
      return [{ seq: record.seq, at, task, step: saved.step, bytes: saved.bytes, micros: saved.duration, evicted: record.type === "EvictionStageReached" }];
    });
}

export interface JobProgress {
  step: number | null;
  total: number | null;
  savedStep: number | null;
  savedAt: string | null;
  /** Steps since the last checkpoint: lost if the job stopped now. */
  unsaved: number | null;
  /** Steps per second. */
  pace: number | null;
  /** It succeeded: whatever it reported last, it is done. */
  done: boolean;
}

export function jobProgress(live: LiveJob | null, details: JobPage | null, records: RecordItem[], succeeded = false): JobProgress {
  const newest = [...records].sort((left, right) => right.seq - left.seq);
  const first = (name: string): number | null => {
    const found = newest.find((record) => record.type === "TaskProgressed" && typeof record.data[name] === "number");
    return found ? (found.data[name] as number) : null;
  };
  const tasks = details?.task_list ?? [];
  const most = (values: (number | null)[]): number | null => values.reduce((left, right) => (right !== null && (left === null || right > left) ? right : left), null);
  const saved = checkpoints(records)[0];
  const total = first("total_steps");
  const exited = newest.find((record) => record.type === "TaskExited" && typeof record.data.step === "number")?.data.step as number | undefined;
  const reported = live?.step ?? most(tasks.map((task) => task.step)) ?? most([first("step"), exited ?? null]);
  const step = succeeded && total !== null ? total : reported;
  const savedStep = live?.checkpoint_step ?? most(tasks.map((task) => task.checkpoint_step)) ?? saved?.step ?? null;
  const pace = first("step_rate_milli");
  return {
    step,
    total,
    savedStep,
    savedAt: live?.checkpoint_at ?? tasks.find((task) => task.checkpoint_at)?.checkpoint_at ?? saved?.at ?? null,
    unsaved: step !== null && savedStep !== null ? Math.max(0, step - savedStep) : null,
    pace: pace ? pace / 1000 : null,
    done: succeeded,
  };
}
