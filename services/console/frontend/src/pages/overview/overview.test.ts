import { expect, test } from "vitest";

import type { Overview } from "../../api";
import { aJob, allocated, aNode, FREE } from "../../testing/liveRows";
import { allocation, currentPoint, filled } from "../../shared/poolUsage";
import { concerns, until } from "./overviewData";

const at = (minute: number): string => new Date(Date.UTC(2026, 0, 1, 0, minute)).toISOString();
const point = (minute: number, gpus: number) => ({ time: at(minute), gpus, capacity: 8, waiting: 0 });
const none = { project: "", submitted: 0, started: 0, ended: 0, waited_mean_s: null, waited_p95_s: null, preempted: 0, lost_gpu_hours: 0, lost_other_gpu_hours: 0, restart_gpu_hours: 0 };
const overview = (points: Overview["points"]): Overview => ({ from: at(0), to: at(5), interval_s: 60, points, pool: none, projects: [] });

test("a missing interval repeats the one before; before the first sample there is none", () => {
  expect(filled(overview([point(1, 4), point(3, 8)])).map((each) => [each.time, each.gpus])).toEqual([[at(1), 4], [at(2), 4], [at(3), 8], [at(4), 8]]);
  expect(filled(overview([]))).toEqual([]);
});

test("the allocation is that of the capacity, which may change", () => {
  expect(allocation([point(0, 4), { ...point(1, 4), capacity: 4 }])).toBe(67);
  expect(allocation([])).toBeNull();
});

test("what needs a person: alarms, silent nodes, quarantined GPUs and late starts, and nothing else", () => {
  const nodes = [aNode("ok", [FREE]), aNode("quiet", [FREE], { state: "unreachable" }), aNode("bad", [["quarantined", null, null, [], "2 GiB in use"], FREE])];
  const attention = { alarms: [{ kind: "alarm" as const, code: "log-truncated", source: "auditor", count: 2, last: at(0), seq: 7, text: "the log is shorter" }], late: [{ job: "j", priority_class: "train", since: at(0), within_s: 60 }] };
  const found = concerns(nodes, [aJob("fine")], attention);
  expect(found.map((each) => [each.what, each.node ?? each.job ?? each.seq])).toEqual([["Alarm log-truncated", 7], ["Silent node", "quiet"], ["1 quarantined GPU", "bad"], ["Late start", "j"]]);
  expect(concerns([aNode("ok", [FREE])], [], { alarms: null, late: [] })).toEqual([]);
});

test("a pool that the archive has no sample of yet is shown as it is now", () => {
  const jobs = [aJob("a", { gpus: 4 }), aJob("b", { gpus: 8, state: "pending" })];
  const held = allocated("a");
  const nodes = [aNode("n1", [held, held, held, held, ["reserved", null, "b", [], null], FREE]), aNode("drained", [FREE], { state: "drained" }), aNode("lost", [FREE], { state: "lost" }), aNode("bad", [["quarantined", null, null, [], "2 GiB in use"]])];
  expect(currentPoint(at(0), { gpus_allocated: 4 }, nodes, jobs)).toEqual({ time: at(0), gpus: 4, capacity: 7, waiting: 8 });
});

test("utilisation ends with the range", () => {
  const measured = { step_s: 60, times: [0, 60, 120], busy: [1, 2, 3] };
  expect([until(measured, new Date(120_000).toISOString()).busy, until(measured, null).busy]).toEqual([[1, 2], [1, 2, 3]]);
});
