import { expect, test } from "vitest";

import type { EventLine } from "../../live/shapes";
import type { RecordItem } from "../job/shapes";
import { moveTo, stepTo } from "./play";
import { askedOf, filterOf, fromRecord, matches, merged, NO_FILTER, queryOf } from "./rows";

const record = (seq: number, type: string, data: Record<string, unknown>): RecordItem => ({ seq, time: "2026-01-01T00:00:00Z", type, kind: "fact", turn: 1, epoch: 1, job: null, actor: null, hash: "", data });
const line = (seq: number, word: string, more: Partial<EventLine> = {}): EventLine => ({ seq, time: "2026-01-01T00:00:00Z", type: "JobPlaced", word, job: "a", project: "research", node: null, text: "told", ...more });

test("one row for each record, the newest first; words before fields", () => {
  const rows = merged([line(3, "Scheduled"), line(5, "Started")], [record(4, "ClockAdvanced", {}), record(3, "JobPlaced", { job: "a", attempt: 1 })], 10);
  expect(rows.map((row) => [row.seq, row.word, row.text])).toEqual([[5, "Started", "told"], [4, "Clock advanced", ""], [3, "Scheduled", "told"]]);
  expect(merged([line(1, "x"), line(2, "x"), line(3, "x")], [], 2).map((row) => row.seq)).toEqual([3, 2]);
});

test("one record about several jobs is one row that names them", () => {
  const [row] = merged([line(7, "Preempted", { job: "a", text: "for c" }), line(7, "Preempted", { job: "b", text: "for c" })], [], 10);
  expect([row!.job, row!.text]).toEqual(["a", "for c; b: for c"]);
});

test("a row of the archive knows its job, its asker or its node", () => {
  expect(fromRecord(record(1, "PreemptionRefused", { asker: { job: "s" } })).job).toBe("s");
  expect(fromRecord(record(1, "NodeLost", { node: "n1" })).node).toBe("n1");
});

test("a row of the archive says what the server tells of it, or else its fields", () => {
  const bare = record(1, "TaskExited", { task: 0, exit_code: 85 });
  expect([fromRecord(bare).word, fromRecord(bare).text]).toEqual(["Task exited", "task 0, exit code 85"]);
  const told = fromRecord({ ...bare, word: "Task exited", text: "train-1/0 on node-3, exit code 85" });
  expect([told.word, told.text]).toEqual(["Task exited", "train-1/0 on node-3, exit code 85"]);
});

test("every field of the filter must fit, in words or as a type", () => {
  const [row] = merged([line(3, "Scheduled", { node: "node-1", text: "on node-1" })], [], 10);
  const fits = (some: object): boolean => matches(row!, { ...NO_FILTER, ...some });
  expect([fits({}), fits({ type: "sched" }), fits({ type: "JobPlaced" }), fits({ type: "job placed" }), fits({ type: "lost" })]).toEqual([true, true, true, true, false]);
  expect([fits({ job: "A" }), fits({ job: "b" }), fits({ project: "res" }), fits({ project: "other" }), fits({ node: "node-1" }), fits({ node: "node-2" })]).toEqual([true, false, true, false, true, false]);
  expect([fits({ words: "told" }), fits({ words: "scheduled node-1" }), fits({ words: "#3" }), fits({ words: "scheduled node-9" })]).toEqual([false, true, true, false]);
});

test("the address keeps the filter", () => {
  const filter = { ...NO_FILTER, job: "a&b=1", words: "x y" };
  expect(queryOf(filter)).toBe("job=a%26b%3D1&q=x%20y");
  expect(filterOf(Object.fromEntries(new URLSearchParams(queryOf(filter))))).toEqual(filter);
  expect(askedOf({ ...NO_FILTER, type: "JobPlaced", project: "r&d", job: "a" })).toBe("&type=JobPlaced&project=r%26d");
  expect(askedOf({ ...NO_FILTER, type: "job placed" })).toBe("");
});

test("the slider stays within the log", () => {
  const span = { first: 10, head: 200 };
  expect([stepTo(span, 10, -1), stepTo(span, 199, 10), stepTo(span, 50, 1)]).toEqual([10, 200, 51]);
  expect([moveTo(span, 5), moveTo(span, 50.4), moveTo(span, NaN)]).toEqual([10, 50, 200]);
});

test("the quiet ones are there for who asks", () => {
  const quiet = fromRecord(record(4, "ClockAdvanced", {}));
  expect([matches(quiet, NO_FILTER), matches(quiet, { ...NO_FILTER, quiet: "1" }), matches(quiet, { ...NO_FILTER, type: "clock" }), matches(quiet, { ...NO_FILTER, words: "#4" })]).toEqual([false, true, true, true]);
});
