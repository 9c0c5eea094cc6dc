// Times and stages in words.
import { gpuTime } from "../lib/amounts";
import { endText, stageText } from "../lib/evictionTexts";
import { exitValue } from "../lib/exitText";
import type { Data, Decoded } from "./contents";

/** `29 Nov 2026, 12:00:03 UTC`. */
export function moment(time: string): string {
  const at = new Date(time);
  return `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" })}, ${time.slice(11, 19)} UTC`;
}

/** What a record about a victim says. */
export function stage({ kind, data }: Decoded): string {
  const task = data["task"] === undefined ? "" : `Task ${data["task"]} `;
  switch (kind) {
    case "EvictionStarted":
      return "The executor started the eviction";
    case "EvictionStageReached":
      return `${task.trim()}: ${stageText(data["stage"])}${elapsed(data)}`;
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
      return `The attempt ${endText(data["outcome"])}, and the job is back in the queue; work lost: ${gpuTime(data["lost_gpu_ms"] ?? 0)}`;
    case "JobShrunk":
      return `The job runs on without tasks ${data["tasks"]}; work lost: ${gpuTime(data["lost_gpu_ms"] ?? 0)}`;
    case "JobEnded":
      return `The job ended: ${endText(data["outcome"])}`;
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
