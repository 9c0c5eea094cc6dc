import { expect, test } from "vitest";

import type { Eviction } from "../api";
import { groupByEviction, type EventRow } from "./eventGroups";

const at = (seconds: number): string => new Date(seconds * 1000).toISOString();
const row = (seq: number, seconds: number, job: string | null = "a"): EventRow => ({ key: String(seq), seq, time: at(seconds), job, event: "e", text: "t" });
const eviction = (decided_seq: number, released: number | null, more: Partial<Eviction> = {}): Eviction => ({
  decided_seq, decided_at: at(10), job: "a", submitted_seq: 1, attempt: 1, tasks: "", project: null, user: null, user_verified: null, priority_class: null, cause: "preemption", action: "preempt", for_job: "serve",
  for_class: null, for_priority: null, reason: null, gpus: 1, work_lost_gpu_ms: null, restart_gpu_ms: null, explanation: null, stages: released === null ? {} : { released: at(released), resumed: at(99) },
  until_released_s: null, until_resumed_s: null, outcome: "preempted", ...more,
});
const shown = (rows: EventRow[], evictions: Eviction[]) => groupByEviction(rows, evictions).map((item) => [item.row.seq, item.row.text, item.rows?.map((each) => each.seq) ?? null]);

test("the records of one eviction are one line, which has its decision", () => {
  expect(shown([row(9, 30), row(8, 13), row(7, 11), row(6, 10), row(2, 1)], [eviction(6, 13)])).toEqual([[9, "t", null], [6, "for serve, stopped in time: 3 records", [8, 7, 6]], [2, "t", null]]);
});

test("an eviction in progress has all records since its decision; one with a single record is that record", () => {
  expect(shown([row(8, 30), row(6, 10)], [eviction(6, null, { outcome: null, cause: "drain", for_job: null })])).toEqual([[6, "a node that it ran on is drained: 2 records", [8, 6]]]);
  expect(shown([row(6, 10)], [eviction(6, 13)])).toEqual([[6, "t", null]]);
});

test("records of another job, and those after the release, stay outside", () => {
  expect(shown([row(9, 14), row(8, 12, "b"), row(7, 11), row(6, 10)], [eviction(6, 13)]).map(([seq]) => seq)).toEqual([9, 8, 6]);
});
