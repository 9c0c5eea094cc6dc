import { describe, expect, it } from "vitest";

import type { VictimView } from "../api";
import { victimOutcome } from "./effectText";
import { errorRanges } from "./lineErrors";
import { errorField, planSentences } from "./planResponse";

const victim = (some: Partial<VictimView>): VictimView => ({ job: "a", project: "", priority_class: "train", priority: 50, effect: "evicted", tasks: "", gpus: 4, work_lost_gpu_ms: 0, restart_gpu_ms: 0, restart_measured: false, to: [], ...some });

describe("error ranges", () => {
  const text = "name: a\n  gpus: four  \n\nlast";
  it("start at the first character and end with the line", () => {
    expect(errorRanges(text, [{ line: 2, detail: "x" }])).toEqual([
      { from: 10, to: 20, message: "x" },
    ]); // prettier-ignore
  });
  it("stay within the text for any position", () => {
    for (const line of [0, 3, 99]) {
      for (const mark of errorRanges(text, [{ line, detail: "x" }])) {
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
    const answer = { decision: { action: "preempt", victims: [victim({})] } } as never;
    expect(planSentences({ sentences, answer }).map((each) => each.text)).toEqual(["b (8 GPUs) would run on n-1 by preempt.", "Total: 3 GPU-seconds would be lost."]);
    expect(planSentences({ sentences, answer: null })).toHaveLength(3);
  });
  it("list why preemption is not possible", () => {
    const long = "to preempt other jobs: consolidate: the policy permits no migration; reclaim: web; is; within its quota; preempt: no job has lower priority";
    expect(planSentences({ sentences: [long], answer: null })).toEqual([{ text: "No preemption possible:", items: ["consolidate: the policy permits no migration", "reclaim: web; is; within its quota", "preempt: no job has lower priority"] }]);
  });
  it("show the outcome of a victim", () => {
    expect(victimOutcome(victim({}))).toBe("requeued at its previous position");
    expect(victimOutcome(victim({ effect: "ends" }))).toContain("on_eviction: end");
    expect(victimOutcome(victim({ effect: "migrates", to: ["n-2", "n-2", "n-3"] }))).toBe("migrates to n-2 and n-3");
    expect(victimOutcome(victim({ effect: "loses its reservation" }))).toBe("pending again");
  });
  it("map errors to form fields", () => {
    expect(["min-tasks", "groups.0.gpus", "env.A", "topology.required", ""].map((location) => errorField({ location, detail: "" }))).toEqual(["min_tasks", "gpus", "env", "topology", ""]);
  });
});
