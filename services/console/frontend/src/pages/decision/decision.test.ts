import { describe, expect, test } from "vitest";

import type { Cell, NodeCells } from "../../live/shapes";
import { counts, groupsOf, ordered } from "./candidates";
import { changes, concerned } from "./changes";
import { levels } from "./cost";
import type { Candidate, Data } from "./shapes";
import { storyOf, typeName } from "./story";

const victim = (job: string, more = {}) => ({ job, attempt: 1, priority: 50, gpus: 4, lost_gpu_ms: 60_000, ...more });
const asker = { job: "serve-2", class_name: "inference", priority: 125 };

describe("the story", () => {
  test("who had to leave, at what cost, and whether that is proven", () => {
    const decision: Data = { asker, victims: [victim("a"), victim("a", { tasks: "3" }), victim("b", { reserved: true })], explanation: { proven: true, steps: 1_200, cost: { lost_gpu_ms: 186_000, jobs_stopped: 2 } } };
    expect(storyOf({ type: "PreemptionDecided", decision })).toMatchObject({
      title: "a and b had to leave for serve-2", about: "serve-2", cost: "3.1 GPU-min of work lost, and 2 jobs are stopped.",
      proven: "Proven: no permitted set of jobs is cheaper. 1,200 steps of search.", isProven: true,
    });
  });

  test.each<[string, Data, RegExp, RegExp]>([
    ["bailiff.audit.PreemptionDecided.v1", { asker }, /^Nobody had to leave for serve-2: room appeared$/, /nothing to prove/],
    ["PreemptionRefused", { asker, reason: "impossible" }, /^Nobody was made to leave for serve-2$/, /that is proven/],
    ["PreemptionRefused", { asker, reason: "gave-up", explanation: { steps: 20_000 } }, /^Nobody was made/, /not a proof.*20,000 steps/],
    ["PreemptionRefused", { asker, reason: "a reason of a later release" }, /^Nobody was made/, /A reason of a later release/],
    ["EvictionDecided", { job: "a", cause: "drain" }, /^a had to stop: a node that it stood on is being emptied$/, /nothing/],
    ["EvictionWithdrawn", { job: "a" }, /may stay/, /nothing/],
    ["MigrationDecided", { job: "a" }, /has to move/, /nothing/],
    ["JobPlaced", { job: "a" }, /^Job placed: a$/, /nothing/],
    ["SelectionTimedOut", {}, /^Selection timed out$/, /nothing/],
  ])("%s %j", (type, decision, title, proven) => {
    const story = storyOf({ type, decision });
    expect(story.title).toMatch(title);
    expect(story.proven).toMatch(proven);
  });

  test("what is lost is added up where the record does not say it; a reservation loses nothing", () => {
    const decision: Data = { asker, victims: [victim("a"), victim("b", { reserved: true })] };
    expect(storyOf({ type: "PreemptionDecided", decision }).cost).toBe("1.0 GPU-min of work lost.");
    expect(typeName("bailiff.audit.PreemptionDecided.v12")).toBe("PreemptionDecided");
  });
});

describe("two costs beside each other", () => {
  test("the first level at which they differ decides; priorities come first, the highest before", () => {
    const found = levels([
      { classes: [{ priority: 50, gpu_milli: 4000 }], lost_gpu_ms: 600_000, jobs_stopped: 1, tasks: 1 },
      { classes: [{ priority: 50, gpu_milli: 4000 }, { priority: 75, gpu_milli: 1000 }], lost_gpu_ms: 60_000, jobs_stopped: 2, tasks: 2 },
    ]);
    expect(found.map((level) => [level.name, ...level.values, level.decides])).toEqual([
      ["GPUs taken from priority 75", "0 GPUs", "1 GPU", true], ["GPUs taken from priority 50", "4 GPUs", "4 GPUs", false],
      ["Work lost", "10.0 GPU-min", "1.0 GPU-min", false], ["Jobs stopped", "1", "2", false], ["Tasks that leave", "1", "2", false],
    ]);
  });

  test("alone, or where one is missing, nothing decides", () => {
    expect(levels([{ lost_gpu_ms: 0, tasks: 1 }]).map((level) => [level.name, level.decides])).toEqual([["Work lost", false], ["Tasks that leave", false]]);
    expect(levels([{ tasks: 1 }, null]).some((level) => level.decides)).toBe(false);
    expect(levels([{ lost_gpu_ms: 249_592 }, { lost_gpu_ms: 249_858 }])[0]?.values).toEqual(["249.592 GPU-s", "249.858 GPU-s"]);
  });
});

describe("candidates", () => {
  const row = (job: string, rule: string, chosen = false, lost_gpu_ms = 0): Candidate => ({ verb: "preempt", job, tasks: "", class_name: "train", priority: 50, project: "", gpu_milli: 1000, lost_gpu_ms, rule, chosen });
  test("the chosen ones, then who could have been taken, then who was shielded", () => {
    const rows = [row("x", "min-runtime"), row("d", "", false, 9), row("c", "", false, 3), row("a", "budget"), row("v", "", true)];
    expect(ordered(rows).map((each) => each.job)).toEqual(["v", "c", "d", "a", "x"]);
    expect(counts(rows)).toEqual({ chosen: 1, free: 2, shielded: 2 });
  });

  test("where there is no list, the record's groups, each with its verb and its rule in words", () => {
    const why = { excluded: [{ rule: "held", jobs: 1, examples: ["a"] }], tried: [{ verb: "reclaim", refused: "impossible", excluded: [{ rule: "quota-shields", jobs: 9 }] }] };
    expect(groupsOf("preempt", why)).toEqual([
      { verb: "reclaim", rule: "quota-shields", jobs: 9, examples: [], says: "is within the quota, or the share, of its own project" },
      { verb: "preempt", rule: "held", jobs: 1, examples: ["a"], says: "waits for room reserved for it" },
    ]);
    expect(groupsOf("preempt", undefined)).toEqual([]);
  });
});

describe("before and after", () => {
  const held: Cell = ["held", "a", null, [], null];
  const leaving: Cell = ["leaving", "a", "serve-2", [], null];
  const free: Cell = ["free", null, null, [], null];
  const node = (name: string, gpus: Cell[]): NodeCells => ({ node: name, number: 0, state: "ready", drain: null, quarantined: 0, gpus, model: "", cpu_milli: 0, cpu_milli_free: 0, memory_bytes: 0, memory_bytes_free: 0, labels: {} });
  test("each GPU that changed, in words; nodes with a change come first", () => {
    const [before, after] = [{ nodes: { n0: node("n0", [free]), n1: node("n1", [held, free]) } }, { nodes: { n0: node("n0", [free]), n1: node("n1", [leaving, free]) } }];
    const changed = changes(before, after);
    expect(changed).toEqual([{ node: "n1", gpu: 0, before: "held by a", after: "a leaves, promised to serve-2" }]);
    expect(concerned(after, changed, 1).map((each) => each.node)).toEqual(["n1"]);
    expect(changes(null, after)).toHaveLength(3);
    expect(changes(before, null)).toEqual([]);
  });
});
