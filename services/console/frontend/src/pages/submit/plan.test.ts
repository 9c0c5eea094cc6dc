import { describe, expect, it } from "vitest";

import { marks } from "./marks";
import { fate, fieldOf, places, told, type Victim } from "./plan";

const victim = (some: Partial<Victim>): Victim => ({ job: "a", project: null, priority: 50, tasks: ["0"], gpus: 4, lost_gpu_seconds: 0, stopped: true, was_reserved: false, moved_to: [], ...some });

describe("faults are marked on their lines", () => {
  const text = "name: a\n  gpus: four  \n\nlast";
  it("from the first sign, or their column, to the end", () => {
    expect(marks(text, [{ line: 2, text: "x" }, { line: 2, column: 9, text: "y" }])).toEqual([
      { from: 10, to: 20, message: "x" },
      { from: 16, to: 20, message: "y" },
    ]); // prettier-ignore
  });
  it("within the text, whatever the server says", () => {
    for (const line of [0, 3, 99]) {
      for (const mark of marks(text, [{ line, column: 99, text: "x" }])) {
        expect(mark.from).toBeLessThanOrEqual(mark.to);
        expect(mark.to).toBeLessThanOrEqual(text.length);
      }
    }
    expect(marks("", [{ text: "empty" }])).toEqual([{ from: 0, to: 0, message: "empty" }]);
  });
});

describe("a plan in words", () => {
  const sentences = ["b (8 GPUs) would run on n-1 by preempt; for it must leave:", "  a (train 50): 4 GPUs; loses 3 GPU-seconds; ends", "in all 3 GPU-seconds would be lost", "computed at gpu#7; nothing was submitted"];
  it("leaves to the table what stands in it", () => {
    const answer = { decision: { verb: "preempt", victims: [victim({})], proven: true } } as never;
    expect(told({ sentences, answer }).map((each) => each.text)).toEqual(["b (8 GPUs) would run on n-1 by preempt.", "In all 3 GPU-seconds would be lost."]);
    expect(told({ sentences, answer: null })).toHaveLength(3);
  });
  it("lists why nobody is displaced", () => {
    const long = "to displace others: consolidate: the policy moves nobody; reclaim: web; is; within its quota; preempt: nobody is lower";
    expect(told({ sentences: [long], answer: null })).toEqual([{ text: "It displaces nobody:", items: ["consolidate: the policy moves nobody", "reclaim: web; is; within its quota", "preempt: nobody is lower"] }]);
  });
  it("says what becomes of a victim as the server does", () => {
    expect(fate(victim({}), sentences)).toBe("ends");
    expect(fate(victim({ job: "c", moved_to: ["n-2"] }), sentences)).toBe("moves to n-2");
    expect(fate(victim({ was_reserved: true }), sentences)).toContain("reservation");
  });
  it("counts nodes", () => expect(places(["a", "b", "a"])).toBe("a × 2, b"));
  it("finds the form's field of a fault", () => {
    expect([{ field: "min-tasks", text: "" }, { field: "groups.0.gpus", text: "" }, { field: "env.A", text: "" }, { where: "job.yaml:3: topology.required", text: "" }].map(fieldOf)).toEqual(["min_tasks", "gpus", "env", "topology"]);
  });
});
