import { expect, test } from "vitest";

import { evictedText } from "./evictedText";
import { comparison, losses } from "./comparison";
import { evictionReason, restartCostOf } from "./evictionReason";
import { jobProgress } from "./progressModel";
import type { Eviction, RecordItem } from "./types";
import { meanOf, partOf } from "../../ui/telemetryHistory";
import { devicesByNode } from "./measuredDevices";

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
  const exited: RecordItem = { ...progressed, seq: 4, type: "TaskExited", data: { step: 97, exit_code: 0 } };
  expect(jobProgress(null, null, [exited, progressed], false).step).toBe(97); // the last step that it published
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

test("a comparison has the work lost and the restart cost as two figures, too", () => {
  const attempts = [{ lost_gpu_hours: 0.2 }, { lost_gpu_hours: null }, { lost_gpu_hours: 4 / 60 }];
  expect(losses(attempts, 4, 60_000)).toEqual({ "Work lost": "8.0 GPU-min", "Restart cost": "8.0 GPU-min" });
  expect(losses(attempts.slice(1), 4, 60_000)).toEqual({ "Work lost": "none", "Restart cost": "4.0 GPU-min" });
  expect(losses(attempts, 4, null)).toEqual({ "Lost, with the restart": "16.0 GPU-min" });
});

test("the measurements of a job are those of its GPUs while the attempt ran", () => {
  const history = { step_s: 10, times: [0, 10, 20], busy: [[0, 50, 100], [null, 100, 0]], memory: [] };
  expect(meanOf(partOf(history, 10_000, 20_000), [0, 1], "busy")).toEqual([75, 50]);
  expect(partOf(history, 5_000, 15_000).times).toEqual([0, 10]); // the first step reaches into it
  expect(meanOf(history, [0, 7], "busy")).toEqual([0, 50, 100]);
  expect(meanOf(history, [0], "memory")).toEqual([null, null, null]);
});

test("the GPUs of an attempt are those of its allocations, and of no other attempt or job of the name", () => {
  const of = (more: object) => ({ submitted_seq: 7, attempt: 2, kind: "allocated", node: "n", gpus: [3, 1], ...more });
  expect([...devicesByNode([of({}), of({ gpus: [1, 2] }), of({ node: "m", gpus: [] }), of({ attempt: 1, gpus: [6] }), of({ submitted_seq: 1, gpus: [7] }), of({ kind: "reserved", gpus: [5] })], 7, 2)]).toEqual([["n", [1, 2, 3]]]);
});
