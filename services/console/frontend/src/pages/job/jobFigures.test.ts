import { expect, test } from "vitest";

import type { Eviction, RecordItem } from "../../api";
import { meanOf, partOf } from "../../shared/telemetryHistory";
import { comparison, losses } from "./comparison";
import { evictedText } from "./evictedText";
import { evictionReason } from "./evictionReason";
import { devicesByNode } from "./measuredDevices";
import { jobProgress } from "./progressModel";

const eviction = (more: Partial<Eviction>): Eviction => ({
  decided_seq: 1, decided_at: "2026-01-01T00:00:00Z", job: "j", submitted_seq: 0, attempt: 1, tasks: null, project: "p", user: null, user_verified: null, priority_class: "train", cause: "preemption", action: "preempt", for_job: "urgent",
  for_class: "inference", for_priority: 125, reason: null, gpus: 4, work_lost_gpu_ms: 720_000, restart_gpu_ms: 240_000, explanation: null, stages: {}, until_released_s: null, until_resumed_s: null, outcome: "preempted", ...more,
});

test("work lost and restart cost are two figures", () => {
  const reason = evictionReason(eviction({}), null, null, false);
  expect([reason.workLost, reason.restartCost]).toEqual(["12.0 GPU-min since its last checkpoint, or its start.", "4.0 GPU-min, as the policy assumes or as measured."]);
  const saved = evictionReason(eviction({ work_lost_gpu_ms: 0 }), null, null, false);
  expect([saved.workLost, saved.restartCost]).toEqual(["None.", "4.0 GPU-min, as the policy assumes or as measured."]);
});

const progressed: RecordItem = { seq: 3, time: "2026-01-01T00:00:00Z", type: "TaskProgressed", pool: "pool-a", kind: "fact", cycle: 1, epoch: 1, job: "j", actor: null, actor_verified: null, hash: "", data: { step: 90, total_steps: 100 } };

test("the progress of a job that succeeded is full, that of another one is as reported", () => {
  expect(jobProgress(null, null, [progressed], true).step).toBe(100);
  expect(jobProgress(null, null, [progressed], false).step).toBe(90);
  const exited: RecordItem = { ...progressed, seq: 4, type: "TaskExited", data: { step: 97, exit_code: 0 } };
  expect(jobProgress(null, null, [exited, progressed], false).step).toBe(97); // the last step that it published
});

test("how often a job was preempted and what came back", () => {
  const resumed = { resumed: "2026-01-01T00:01:00Z" };
  expect(evictedText({ evictions: [eviction({ stages: resumed }), eviction({ stages: resumed })] })).toBe(", preempted 2 times; it resumed each time");
  expect(evictedText({ evictions: [eviction({}), eviction({ cause: "drain" })] })).toBe(", preempted once, evicted once; it has not resumed");
  expect(evictedText({ evictions: [eviction({ outcome: "eviction-cancelled" })] })).toBe("");
});

test("what somebody asked for is not called an eviction", () => {
  expect(evictedText({ evictions: [eviction({ cause: "cancelled" })] })).toBe(", cancelled once");
  expect(evictedText({ evictions: [eviction({ cause: "paused" }), eviction({ cause: "drain" })] })).toBe(", paused once, evicted once; it has not resumed");
});

test("a comparison marks what differs, and what one of them lacks", () => {
  expect(comparison([{ name: "a", values: { GPUs: "4", Node: "n" } }, { name: "b", values: { GPUs: "8" } }])).toEqual([
    { name: "GPUs", values: ["4", "8"], differs: true }, { name: "Node", values: ["n", "–"], differs: true },
  ]);
});

test("a comparison has the work lost and the restart cost as two figures, too", () => {
  const attempts = [{ work_lost_gpu_ms: 360_000, restart_gpu_ms: 240_000 }, { work_lost_gpu_ms: null, restart_gpu_ms: null }, { work_lost_gpu_ms: 0, restart_gpu_ms: 240_000 }];
  expect(losses(attempts)).toEqual({ "Work lost": "6.0 GPU-min", "Restart cost": "8.0 GPU-min" });
  expect(losses(attempts.slice(1))).toEqual({ "Work lost": "none", "Restart cost": "4.0 GPU-min" });
});

test("the measurements of a job are those of its GPUs while the attempt ran", () => {
  const history = { step_s: 10, times: [0, 10, 20], busy: [[0, 50, 100], [null, 100, 0]], memory: [] };
  expect(meanOf(partOf(history, 10_000, 20_000), [0, 1], "busy")).toEqual([75, 50]);
  expect(partOf(history, 5_000, 15_000).times).toEqual([0, 10]); // the first step reaches into it
  expect(meanOf(history, [0, 7], "busy")).toEqual([0, 50, 100]);
  expect(meanOf(history, [0], "memory")).toEqual([null, null, null]);
});

test("the GPUs of an attempt are those of its allocations, and of no other attempt or job of the name", () => {
  const of = (more: object) => ({ submitted_seq: 7, attempt: 2, kind: "allocated", node: "n", devices: [3, 1], ...more });
  expect([...devicesByNode([of({}), of({ devices: [1, 2] }), of({ node: "m", devices: [] }), of({ attempt: 1, devices: [6] }), of({ submitted_seq: 1, devices: [7] }), of({ kind: "reserved", devices: [5] })], 7, 2)]).toEqual([["n", [1, 2, 3]]]);
});
