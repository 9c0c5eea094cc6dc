import { describe, expect, it } from "vitest";

import { errorRanges } from "./lineErrors";
import { victimOutcome, errorField, nodeCounts, planSentences, type Victim } from "./planResponse";

const victim = (some: Partial<Victim>): Victim => ({ job: "a", project: null, priority: 50, tasks: ["0"], gpus: 4, lost_gpu_seconds: 0, stopped: true, was_reserved: false, moved_to: [], ...some });

describe("error ranges", () => {
  const text = "name: a\n  gpus: four  \n\nlast";
  it("start at the first character, or the column, and end with the line", () => {
    expect(errorRanges(text, [{ line: 2, detail: "x" }, { line: 2, column: 9, detail: "y" }])).toEqual([
      { from: 10, to: 20, message: "x" },
      { from: 16, to: 20, message: "y" },
    ]); // prettier-ignore
  });
  it("stay within the text for any position", () => {
    for (const line of [0, 3, 99]) {
      for (const mark of errorRanges(text, [{ line, column: 99, detail: "x" }])) {
        expect(mark.from).toBeLessThanOrEqual(mark.to);
        expect(mark.to).toBeLessThanOrEqual(text.length);
      }
    }
    expect(errorRanges("", [{ detail: "empty" }])).toEqual([{ from: 0, to: 0, message: "empty" }]);
  });
});

describe("plan texts", () => {
  const sentences = ["b (8 GPUs) would run on n-1 by preempt; it would preempt:", "  a (train 50): 4 GPUs; loses 3 GPU-seconds; ends", "total: 3 GPU-seconds would be lost", "computed at gpu#7; nothing was submitted"];
  it("omit what the table shows", () => {
    const answer = { decision: { action: "preempt", victims: [victim({})], proven: true } } as never;
    expect(planSentences({ sentences, answer }).map((each) => each.text)).toEqual(["b (8 GPUs) would run on n-1 by preempt.", "Total: 3 GPU-seconds would be lost."]);
    expect(planSentences({ sentences, answer: null })).toHaveLength(3);
  });
  it("list why preemption is not possible", () => {
    const long = "to preempt other jobs: consolidate: the policy permits no migration; reclaim: web; is; within its quota; preempt: no job has lower priority";
    expect(planSentences({ sentences: [long], answer: null })).toEqual([{ text: "No preemption possible:", items: ["consolidate: the policy permits no migration", "reclaim: web; is; within its quota", "preempt: no job has lower priority"] }]);
  });
  it("show the outcome of a victim as the server does", () => {
    expect(victimOutcome(victim({}), sentences)).toBe("ends");
    expect(victimOutcome(victim({ job: "c", moved_to: ["n-2"] }), sentences)).toBe("migrates to n-2");
    expect(victimOutcome(victim({ was_reserved: true }), sentences)).toContain("reservation");
  });
  it("count nodes", () => expect(nodeCounts(["a", "b", "a"])).toBe("a × 2, b"));
  it("map errors to form fields", () => {
    expect(["min-tasks", "groups.0.gpus", "env.A", "topology.required", ""].map((location) => errorField({ location, detail: "" }))).toEqual(["min_tasks", "gpus", "env", "topology", ""]);
  });
});
