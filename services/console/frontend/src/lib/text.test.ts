import { expect, test } from "vitest";

import { evictionCauseText, isDecision, ruleText } from "./decisionText";
import { gpuTime } from "./amounts";
import { endText, stageText } from "./evictionTexts";
import { allocatedText, duration, few, gpuCount, numbers } from "./format";
import { exitText, exitValue } from "./exitText";
import { brief, sentence, summary, typeTitle } from "./recordText";

test("GPU time in a readable unit", () => {
  expect([0, 300, 1_499, 59_999, 60_000, 186_000, 3_600_000, 12_345_678].map(gpuTime)).toEqual([
    "0 GPU-s", "< 1 GPU-s", "1 GPU-s", "60 GPU-s", "1.0 GPU-min", "3.1 GPU-min", "1.0 GPU-h", "3.4 GPU-h",
  ]);
  expect([1000, 2500].map(gpuCount)).toEqual(["1 GPU", "2.5 GPUs"]);
});

test("durations are those of the CLI", () => {
  expect([0, 0.4, 45, 60, 200, 3_600, 7_500, 86_400, 356_400, -3].map(duration)).toEqual(["0s", "400ms", "45s", "1m", "3m20s", "1h", "2h05m", "1d", "4d03h", "0s"]);
});

test("a job that runs with some of its tasks has their GPUs only", () => {
  const wide = { gpus_text: "8", placed_gpus_text: "4", placed_tasks: 4, tasks: 8 };
  expect(allocatedText(wide)).toBe("4 of 8 GPUs");
  expect(allocatedText({ ...wide, placed_tasks: 8, placed_gpus_text: "8" })).toBe("8 GPUs");
  expect(allocatedText({ ...wide, placed_tasks: 0, placed_gpus_text: "0" })).toBe("8 GPUs");
});

test("long lists are abbreviated", () => {
  expect([few([]), few(["a"]), few(["a", "b", "c"]), few(["a", "b", "c", "d"]), few(["a", "b"], 3, 40)]).toEqual(["", "a", "a, b and c", "a, b and 2 more", "a, b and 38 more"]);
});

test("ranges; empty for invalid text", () => {
  expect([numbers("0-3,7"), numbers(""), numbers("x,2-1,5")]).toEqual([[0, 1, 2, 3, 7], [], [5]]);
});

test("texts of rules and causes; names of object properties are not rules", () => {
  expect(ruleText("not-preemptible")).toBe("is not preemptible");
  expect([ruleText("constructor"), evictionCauseText("toString")]).toEqual(["is protected by it", "toString"]);
  expect(evictionCauseText("drain")).toContain("is drained");
});

test("stages and ends of an eviction are in the words of the log", () => {
  expect(["noticed", "released", "of_tomorrow"].map(stageText)).toEqual(["notice delivered", "GPUs released", "of tomorrow"]);
  expect(["preempted-unclean", "shrunk, preempted", "eviction-cancelled", "toString"].map(endText)).toEqual(["stopped without reporting a save", "shrunk, stopped in time", "eviction cancelled", "toString"]);
});

test("one-line summary of a record", () => {
  expect([typeTitle("JobPlaced"), typeTitle("bailiff.audit.StateDigest.v1")]).toEqual(["Job placed", "State digest"]);
  expect(summary({ job: "a", attempt: 2, outcome: "preempted", victims: [1, 2], notified: true, reason: "" })).toBe("outcome preempted, attempt 2, notified, 2 victims");
  expect(summary({ reason: "\u001b[31mred\n" + "x".repeat(500) })).toMatch(/^red�x+…$/);
  expect(summary({ stage: "checkpoint_committed", after: 509_386, hard: 1, decided_by: 7, victims: [1] })).toBe("stage checkpoint committed, decided by #7, 1 victim");
  expect([summary(null), sentence("needs resources"), sentence("project a is full.")]).toEqual(["", "It needs resources.", "Project a is full."]);
});

test("an exit names its signal, in a table of tasks and in a record", () => {
  expect([0, 3, -15, -40].map(exitText)).toEqual(["exit code 0", "exit code 3", "signal 15 (SIGTERM)", "signal 40"]);
  expect([0, 3, -15].map(exitValue)).toEqual(["0", "3", "signal 15 (SIGTERM)"]);
  expect([summary({ task: 0, exit_code: -15 }), summary({ task: 0, exit_code: 3 })]).toEqual(["task 0, signal 15 (SIGTERM)", "task 0, exit code 3"]);
});

test("a long reason is cut after its first clauses", () => {
  const needs = "needs 2 nodes with 8 free GPUs, 32 CPUs, 128 GiB of memory each, none has them";
  const long = `no permitted set of victims frees enough, it would need: preempt: ${needs.replace("needs ", "")}; 1 node has fewer than 8 usable GPUs; ${"'talks', which is not preemptible; ".repeat(9)}asks again 15:26:06`;
  expect(brief(long)).toBe(`No permitted set of victims frees enough; it ${needs}; 1 node has fewer than 8 usable GPUs.`);
  expect(brief("needs resources")).toBe("It needs resources.");
  expect(brief(`a ${"word ".repeat(80)}`)).toMatch(/^A (word )+…$/);
  expect(brief("x".repeat(400)).length).toBeLessThan(180);
});

test("decisions and facts are distinguished", () => {
  expect([isDecision("PreemptionDecided"), isDecision("JobPlaced"), isDecision("NodeLost"), isDecision("length")]).toEqual([true, true, false, false]);
});
