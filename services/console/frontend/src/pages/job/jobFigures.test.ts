import { expect, test } from "vitest";

import { evictedText } from "./evictedText";
import { comparison } from "./comparison";
import { evictionReason, restartCostOf } from "./evictionReason";
import { jobProgress } from "./progressModel";
import type { Eviction, RecordItem } from "./types";
import { meanOf } from "../../ui/telemetryHistory";

const eviction = (more: Partial<Eviction>): Eviction => ({
  decided_seq: 1, decided_at: "2026-01-01T00:00:00Z", job: "j", submitted_seq: 0, attempt: 1, tasks: null, project: "p", priority_class: "train", cause: "preemption", action: "preempt", for_job: "urgent",
  for_class: "inference", for_priority: 125, reason: null, gpus: 4, lost_gpu_hours: 0.2, cost: null, explanation: null, stages: {}, until_released_s: null, until_resumed_s: null, outcome: "preempted", ...more,
});

test("work lost and restart cost are two figures that add up to what the record counts", () => {
  const reason = evictionReason(eviction({}), null, null, false, 60_000);
  expect([reason.workLost, reason.restartCost]).toEqual(["8.0 GPU-min since its last checkpoint.", "4.0 GPU-min (1m on 4 GPUs)"]);
  const saved = evictionReason(eviction({ lost_gpu_hours: 4 / 60 }), null, null, false, 60_000);
  expect([saved.workLost, saved.restartCost]).toEqual(["None.", "4.0 GPU-min (1m on 4 GPUs)"]);
  expect(evictionReason(eviction({}), null, null, false, null).restartCost).toBeNull();
});

const progressed: RecordItem = { seq: 3, time: "2026-01-01T00:00:00Z", type: "TaskProgressed", kind: "fact", cycle: 1, epoch: 1, job: "j", actor: null, hash: "", data: { step: 90, total_steps: 100 } };

test("the restart cost is read from the policy in force", () => {
  expect(["x:\n  restart_cost: 1m30s\n", "  restart_cost: 45s\n", "  restart_cost: 0s\n", "nothing"].map(restartCostOf)).toEqual([90_000, 45_000, 0, null]);
});

test("the progress of a job that succeeded is full, that of another one is as reported", () => {
  expect(jobProgress(null, null, [progressed], true).step).toBe(100);
  expect(jobProgress(null, null, [progressed], false).step).toBe(90);
});

test("how often a job was preempted and what came back", () => {
  const resumed = { resumed: "2026-01-01T00:01:00Z" };
  expect(evictedText({ evictions: [eviction({ stages: resumed }), eviction({ stages: resumed })] })).toBe(", preempted 2 times; it resumed each time");
  expect(evictedText({ evictions: [eviction({}), eviction({ cause: "drain" })] })).toBe(", preempted once, evicted once for other reasons; it has not resumed");
  expect(evictedText({ evictions: [eviction({ outcome: "eviction-cancelled" })] })).toBe("");
});

test("a comparison marks what differs, and what one of them lacks", () => {
  expect(comparison([{ name: "a", values: { GPUs: "4", Node: "n" } }, { name: "b", values: { GPUs: "8" } }])).toEqual([
    { name: "GPUs", values: ["4", "8"], differs: true }, { name: "Node", values: ["n", "–"], differs: true },
  ]);
});

test("the measurements of a job are those of its GPUs since it started", () => {
  const history = { step_s: 10, times: [0, 10, 20], busy: [[0, 50, 100], [null, 100, 0]], memory: [] };
  expect(meanOf(history, [0, 1], "busy", 10_000)).toEqual([75, 50]);
  expect(meanOf(history, [0, 7], "busy", 20_000)).toEqual([100]);
  expect(meanOf(history, [0], "memory", 20_000)).toEqual([null]);
});
