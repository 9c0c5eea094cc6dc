// Times, amounts and stages in words.
import { exitValue } from "../lib/exitText";
import type { Data, Decoded } from "./contents";

export const plural = (count: number, thing: string): string => `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : thing.endsWith("s") ? "es" : "s"}`;

/** `29 Nov 2026, 12:00:03 UTC`. */
export function moment(time: string): string {
  const at = new Date(time);
  return `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" })}, ${time.slice(11, 19)} UTC`;
}

/** `3.1 GPU-min`. */
export function cost(gpuMs: number): string {
  const [size, unit] = gpuMs >= 3_600_000 ? [3_600_000, "GPU-h"] : gpuMs >= 60_000 ? [60_000, "GPU-min"] : [1_000, "GPU-s"];
  return `${(gpuMs / size).toLocaleString("en", { maximumFractionDigits: unit === "GPU-s" ? 0 : 1 })} ${unit}`;
}

const STAGES: Record<string, string> = {
  noticed: "got its eviction notice",
  acknowledged: "acknowledged the notice",
  step_confirmed: "named the step at which it stops",
  step_agreed: "its gang agreed on the step at which it stops",
  checkpoint_started: "began to save a checkpoint",
  saving_in_flight: "is saving a checkpoint",
  checkpoint_committed: "saved a checkpoint",
  yielding: "is ending by itself",
  term_sent: "was told to end (TERM)",
  kill_sent: "was killed (KILL)",
  frozen: "was stopped to be saved by its node",
  dumped: "was written to disk by its node",
  stored: "was saved by its node",
  save_failed: "could not be saved by its node and goes on",
};

const OUTCOMES: Record<string, string> = {
  preempted: "is back in the queue",
  "preempted-unclean": "is back in the queue; it did not save in time",
  yielded: "ended by itself and is back in the queue",
  failed: "failed during its eviction",
  lost: "was lost during its eviction",
};

/** What a record about a victim says. */
export function stage({ kind, data }: Decoded): string {
  const task = data["task"] === undefined ? "" : `Task ${data["task"]} `;
  switch (kind) {
    case "EvictionStarted":
      return "The executor started the eviction";
    case "EvictionStageReached":
      return `${task}${STAGES[data["stage"]] ?? data["stage"]}${elapsed(data)}`;
    case "TaskExited":
      return `${task}${exit(data)}`;
    case "TaskReleased":
      return `${task}was gone, and its GPUs were seen free`;
    case "TaskVanished":
      return `${task}was not found on its node any more`;
    case "TaskEvictionCancelled":
      return `${task}runs on: its eviction was cancelled`;
    case "TaskCancelEvictionRefused":
      return `${task}could not be spared: it had been told to end`;
    case "EvictionStuck":
      return "Its GPUs were not released in time";
    case "EvictionCancelled":
      return `Its eviction was called off: ${data["reason"] ?? ""}`;
    case "JobRequeued":
      return `The job ${OUTCOMES[data["outcome"]] ?? data["outcome"]}; work lost: ${cost(data["lost_gpu_ms"] ?? 0)}`;
    case "JobShrunk":
      return `The job runs on without tasks ${data["tasks"]}; work lost: ${cost(data["lost_gpu_ms"] ?? 0)}`;
    case "JobEnded":
      return `The job ended: ${data["outcome"]}`;
    case "ReservationDropped":
      return "Its reservation was dropped";
    case "JobStarting":
      return `${data["job"]} starts on the freed GPUs`;
    default:
      return kind;
  }
}

const exit = (data: Data): string =>
  data["unobserved"] ? "exited with unobserved status" : `${data["exit_code"] < 0 ? "ended by" : "exited with code"} ${exitValue(data["exit_code"])}`;
const elapsed = (data: Data): string => (data["elapsed"] ? `, ${(data["elapsed"] / 1e6).toLocaleString("en", { maximumFractionDigits: 1 })} s after the notice` : "");
