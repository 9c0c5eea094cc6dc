import { expect, test } from "vitest";

import type { EventLine, RecordItem } from "../../api";
import { archiveQuery, filterOf, fromRecord, matches, mergeRows, namesNode, NO_FILTER, queryOf, recordsPath } from "./recordRows";

const record = (seq: number, type: string, data: Record<string, unknown>): RecordItem => ({ seq, time: "2026-01-01T00:00:00Z", type, pool: "pool-a", kind: "fact", cycle: 1, epoch: 1, job: null, actor: null, actor_verified: null, hash: "", data });
const line = (seq: number, event: string, more: Partial<EventLine> = {}): EventLine => ({ seq, time: "2026-01-01T00:00:00Z", type: "JobPlaced", event, job: "a", project: "research", node: null, message: "told", ...more });

test("one row per record, newest first; live texts have precedence", () => {
  const rows = mergeRows([line(3, "Scheduled"), line(5, "Started")], [record(4, "ClockAdvanced", {}), record(3, "JobPlaced", { job: "a", attempt: 1 })], 10);
  expect(rows.map((row) => [row.seq, row.event, row.message])).toEqual([[5, "Started", "told"], [4, "Clock advanced", ""], [3, "Scheduled", "told"]]);
  expect(mergeRows([line(1, "x"), line(2, "x"), line(3, "x")], [], 2).map((row) => row.seq)).toEqual([3, 2]);
});

test("a record about several jobs is one row", () => {
  const [row] = mergeRows([line(7, "Preempted", { job: "a", message: "for c" }), line(7, "Preempted", { job: "b", message: "for c" })], [], 10);
  expect([row!.job, row!.message]).toEqual(["a", "for c; b: for c"]);
});

test("a row whose text names its node does not name it twice", () => {
  const named = (node: string | null, message: string): boolean => namesNode(line(1, "Eviction", { node, message }));
  expect([named("node-1", "notice delivered, on node-1, attempt 2"), named("n1", "→ n1 [0]")]).toEqual([true, true]);
  expect([named("node-1", "on node-10"), named("node-1", "exit code 0"), named(null, "on node-1")]).toEqual([false, false, false]);
});

test("a row of the archive has its job, preemptor or node", () => {
  expect(fromRecord(record(1, "PreemptionRefused", { preemptor: { job: "s" } })).job).toBe("s");
  expect(fromRecord(record(1, "NodeLost", { node: "n1" })).node).toBe("n1");
});

test("a row of the archive has the server's text, else its fields", () => {
  const bare = record(1, "TaskExited", { task: 0, exit_code: 85 });
  expect([fromRecord(bare).event, fromRecord(bare).message]).toEqual(["Task exited", "task 0, exit code 85"]);
  const row = fromRecord({ ...bare, event: "Task exited", message: "train-1/0 on node-3, exit code 85" });
  expect([row.event, row.message]).toEqual(["Task exited", "train-1/0 on node-3, exit code 85"]);
});

test("every filter field must match", () => {
  const [row] = mergeRows([line(3, "Scheduled", { node: "node-1", message: "on node-1" })], [], 10);
  const fits = (some: object): boolean => matches(row!, { ...NO_FILTER, ...some });
  expect([fits({}), fits({ type: "sched" }), fits({ type: "JobPlaced" }), fits({ type: "job placed" }), fits({ type: "lost" })]).toEqual([true, true, true, true, false]);
  expect([fits({ job: "A" }), fits({ job: "b" }), fits({ project: "res" }), fits({ project: "other" }), fits({ node: "node-1" }), fits({ node: "node-2" })]).toEqual([true, false, true, false, true, false]);
  expect([fits({ search: "told" }), fits({ search: "scheduled node-1" }), fits({ search: "#3" }), fits({ search: "scheduled node-9" })]).toEqual([false, true, true, false]);
});

test("the URL keeps the filter", () => {
  const filter = { ...NO_FILTER, job: "a&b=1", search: "x y" };
  expect(queryOf(filter)).toBe("job=a%26b%3D1&q=x%20y");
  expect(filterOf(Object.fromEntries(new URLSearchParams(queryOf(filter))))).toEqual(filter);
  expect(archiveQuery({ ...NO_FILTER, type: "JobPlaced", project: "r&d", job: "a" })).toBe("&type=JobPlaced&project=r%26d");
  expect(archiveQuery({ ...NO_FILTER, type: "job placed" })).toBe("");
});


test("internal records are shown on request", () => {
  const internal = fromRecord(record(4, "ClockAdvanced", {}));
  expect([matches(internal, NO_FILTER), matches(internal, { ...NO_FILTER, showInternal: "1" }), matches(internal, { ...NO_FILTER, type: "clock" }), matches(internal, { ...NO_FILTER, search: "#4" })]).toEqual([false, true, true, true]);
});

test("the archive is asked for a part of the log and for what the filter leaves to it", () => {
  expect(recordsPath("pool-a", "limit=100", archiveQuery({ ...NO_FILTER, type: "JobPlaced" }))).toBe("/api/archive/pools/pool-a/records?limit=100&type=JobPlaced");
});
