import { expect, test } from "vitest";

import type { AllocationItem, Eviction } from "../../api";
import { moveTo, stepTo } from "./logSlider";
import { moved, poolTimeline, recorded, zoomed } from "./poolTimeline";

const at = (seconds: number): string => new Date(seconds * 1000).toISOString();
const held = (job: string, node: string, devices: number[], from: number, to: number | null, more: Partial<AllocationItem> = {}): AllocationItem => ({
  job, submitted_seq: 1, attempt: 1, task: 0, kind: "allocated", node, devices, project: "p", user: "ada", user_verified: null, priority_class: "train",
  from_seq: from, from_at: at(from), to_seq: to, to_at: to === null ? null : at(to), ...more,
});
const evicted = (job: string, seconds: number, more: Partial<Eviction> = {}): Eviction => ({
  decided_seq: 57, decided_at: at(seconds), job, submitted_seq: 1, attempt: 1, tasks: "", project: null, user: null, user_verified: null, priority_class: null, cause: "preemption",
  action: "preempt", for_job: "serve", for_class: null, for_priority: null, reason: null, gpus: 1, work_lost_gpu_ms: null, restart_gpu_ms: null, explanation: null,
  stages: { checkpoint_started: at(seconds + 1), checkpoint_committed: at(seconds + 2), released: at(seconds + 3) }, until_released_s: 3, until_resumed_s: null, outcome: "preempted", ...more,
});
const NODES = [{ node: "n0", gpus: 4 }, { node: "n1", gpus: 4 }];

test("lanes are the GPUs of all nodes, also of a node that is no longer registered; adjacent GPUs are one bar", () => {
  const found = poolTimeline(NODES, [held("a", "n1", [0, 1, 3], 0, 10), held("b", "gone", [2], 0, 5)], [], 100_000);
  expect(found.nodes).toEqual([{ node: "n0", first: 0, gpus: 4 }, { node: "n1", first: 4, gpus: 4 }, { node: "gone", first: 8, gpus: 3 }]);
  expect(found.lanes).toBe(11);
  expect(found.bars.map((bar) => [bar.allocation.job, bar.lane, bar.lanes, bar.gpus])).toEqual([["a", 4, 2, "GPUs 0–1"], ["a", 7, 1, "GPU 3"], ["b", 10, 1, "GPU 2"]]);
});

test("what has not ended lasts until now", () => {
  expect(poolTimeline(NODES, [held("a", "n0", [0], 5, null)], [], 9_000).bars[0]).toMatchObject({ from: 5_000, to: 9_000, open: true });
});

test("jobs that share a GPU are beside each other, and those that follow one another are not", () => {
  const bars = poolTimeline(NODES, [held("a", "n0", [0], 0, 10), held("b", "n0", [0], 5, 20), held("c", "n0", [0], 10, 20), held("d", "n0", [1], 0, 5), held("e", "n0", [1], 5, 9)], [], 0).bars;
  expect(bars.map((bar) => [bar.allocation.job, bar.slot, bar.slots])).toEqual([["a", 0, 2], ["b", 1, 2], ["c", 0, 2], ["d", 0, 1], ["e", 0, 1]]);
});

test("an arrow leads from where the preemptor starts to its victim at the decision, with the grace period and the checkpoint", () => {
  const bars = [held("train", "n0", [0, 1], 0, 13), held("serve", "n0", [0, 1], 10, 13, { kind: "reserved" }), held("serve", "n0", [0, 1], 13, null)];
  const { arrows, shades } = poolTimeline(NODES, bars, [evicted("train", 10)], 20_000);
  expect(arrows.map(({ from, to }) => [from, to])).toEqual([[{ at: 13_000, lane: 0 }, { at: 10_000, lane: 0 }]]);
  expect(shades.map(({ kind, from, to, lanes }) => [kind, from, to, lanes])).toEqual([["grace", 10_000, 13_000, 2], ["checkpoint", 11_000, 12_000, 2]]);
});

test("before the preemptor starts, its reservation is where the arrow begins; outside of the range there is no beginning", () => {
  const train = held("train", "n0", [0], 0, null);
  expect(poolTimeline(NODES, [train, held("serve", "n0", [0], 10, null, { kind: "reserved" })], [evicted("train", 10, { stages: {} })], 12_000).arrows[0]!.from).toEqual({ at: 10_000, lane: 0 });
  expect(poolTimeline(NODES, [train], [evicted("train", 10)], 12_000).arrows[0]!.from).toBeNull();
});

test("only the evicted tasks and the evicted attempt are shaded, and an eviction without a preemptor has no arrow", () => {
  const bars = [held("train", "n0", [0], 0, 20), held("train", "n1", [0], 0, 20, { task: 1 }), held("train", "n1", [1], 0, 20, { task: 1, attempt: 2 })];
  const { arrows, shades } = poolTimeline(NODES, bars, [evicted("train", 10, { tasks: "1", for_job: null, cause: "drain" })], 20_000);
  expect(shades.map(({ kind, lane }) => [kind, lane])).toEqual([["grace", 4], ["checkpoint", 4]]);
  expect(arrows).toEqual([]);
});

test("zoom keeps the time under the pointer, and nothing moves beyond the end of the log", () => {
  expect(zoomed({ from: 0, to: 100_000 }, 0.5, 25_000, 1e9)).toEqual({ from: 12_500, to: 62_500 });
  expect(zoomed({ from: 0, to: 100_000 }, 2, 50_000, 100_000)).toEqual({ from: -100_000, to: 100_000 });
  expect(moved({ from: 0, to: 100 }, 0.5, 100)).toEqual({ from: 0, to: 100 });
  expect(moved({ from: 0, to: 100 }, -0.5, 100)).toEqual({ from: -50, to: 50 });
});

test("a range of a young pool begins with its first record", () => {
  expect(recorded({ from: 0, to: 600_000 }, 480_000)).toEqual({ from: 480_000, to: 600_000 });
  expect(recorded({ from: 0, to: 600_000 }, -5)).toEqual({ from: 0, to: 600_000 });
  expect(recorded({ from: 0, to: 600_000 }, null)).toEqual({ from: 0, to: 600_000 });
  expect(recorded({ from: 0, to: 600_000 }, 600_000)).toEqual({ from: 599_000, to: 600_000 });
});

test("the slider stays within the log", () => {
  const span = { first: 10, head: 200 };
  expect([stepTo(span, 10, -1), stepTo(span, 199, 10), stepTo(span, 50, 1)]).toEqual([10, 200, 51]);
  expect([moveTo(span, 5), moveTo(span, 50.4), moveTo(span, NaN)]).toEqual([10, 50, 200]);
});
