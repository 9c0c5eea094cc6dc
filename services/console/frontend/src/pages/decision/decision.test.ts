import { describe, expect, test } from "vitest";

import type { Candidate, Cell, DecisionData } from "../../api";
import { affectedNodes, gpuChanges } from "../../shared/gpuChanges";
import { aNode } from "../../testing/liveRows";
import { counts, excludedGroups, sortedCandidates } from "./candidateVerdicts";
import { costLevels } from "./costLevels";
import { decisionSummary, typeName } from "./decisionSummary";

const victim = (job: string, more = {}) => ({ job, attempt: 1, priority: 50, gpus: 4, lost_gpu_ms: 60_000, ...more });
const preemptor = { job: "serve-2", class_name: "inference", priority: 125 };

describe("the decision summary", () => {
  test("victims, cost and proof", () => {
    const decision: DecisionData = { preemptor, victims: [victim("a"), victim("a", { tasks: "3" }), victim("b", { reserved: true })], explanation: { proven: true, steps: 1_200, cost: { lost_gpu_ms: 186_000, jobs_stopped: 2 } } };
    expect(decisionSummary({ type: "PreemptionDecided", decision })).toMatchObject({
      title: "a and b preempted by serve-2", about: "serve-2", cost: "3.1 GPU-min of work lost and restarts; 2 jobs are stopped.",
      proven: "Victim selection claims to have proven: no permitted set of victims costs less. 1,200 search steps.", isProven: true,
    });
  });

  test.each<[string, DecisionData, RegExp, RegExp]>([
    ["bailiff.audit.PreemptionDecided.v1", { preemptor }, /^serve-2 needed no preemption: resources were free$/, /Nothing to prove/],
    ["PreemptionRefused", { preemptor, reason: "impossible" }, /^No preemption for serve-2$/, /claims to have proven/],
    ["PreemptionRefused", { preemptor, reason: "gave-up", explanation: { steps: 20_000 } }, /^No preemption/, /not a proof.*20,000 search steps/],
    ["PreemptionRefused", { preemptor, reason: "a reason of a later release" }, /^No preemption/, /A reason of a later release/],
    ["EvictionDecided", { job: "a", cause: "drain" }, /^a evicted: a node that it ran on is drained$/, /Nothing/],
    ["EvictionCancelled", { job: "a" }, /Eviction of a cancelled/, /Nothing/],
    ["MigrationDecided", { job: "a" }, /^a migrates$/, /Nothing/],
    ["JobPlaced", { job: "a" }, /^Job placed: a$/, /Nothing/],
    ["SelectionTimedOut", {}, /^Selection timed out$/, /Nothing/],
  ])("%s %j", (type, decision, title, proven) => {
    const story = decisionSummary({ type, decision });
    expect(story.title).toMatch(title);
    expect(story.proven).toMatch(proven);
  });

  test("lost work is summed if the record has no total; reservations lose none", () => {
    const decision: DecisionData = { preemptor, victims: [victim("a"), victim("b", { reserved: true })] };
    expect(decisionSummary({ type: "PreemptionDecided", decision }).cost).toBe("1.0 GPU-min of work lost and restarts.");
    expect(typeName("bailiff.audit.PreemptionDecided.v12")).toBe("PreemptionDecided");
  });
});

describe("cost levels", () => {
  test("the first level at which they differ is decisive; priorities first, the highest before", () => {
    const found = costLevels([
      { classes: [{ priority: 50, gpu_milli: 4000 }], lost_gpu_ms: 600_000, jobs_stopped: 1, tasks: 1 },
      { classes: [{ priority: 50, gpu_milli: 4000 }, { priority: 75, gpu_milli: 1000 }], lost_gpu_ms: 60_000, jobs_stopped: 2, tasks: 2 },
    ]);
    expect(found.map((level) => [level.name, ...level.values, level.decides])).toEqual([
      ["GPUs evicted at priority 75", "0 GPUs", "1 GPU", true], ["GPUs evicted at priority 50", "4 GPUs", "4 GPUs", false],
      ["Work lost and restart", "10.0 GPU-min", "1.0 GPU-min", false], ["Jobs stopped", "1", "2", false], ["Tasks evicted", "1", "2", false],
    ]);
  });

  test("a single cost, or a missing one, has no decisive level", () => {
    expect(costLevels([{ lost_gpu_ms: 0, tasks: 1 }]).map((level) => [level.name, level.decides])).toEqual([["Work lost and restart", false], ["Tasks evicted", false]]);
    expect(costLevels([{ tasks: 1 }, null]).some((level) => level.decides)).toBe(false);
    expect(costLevels([{ lost_gpu_ms: 249_592 }, { lost_gpu_ms: 249_858 }])[0]?.values).toEqual(["249.592 GPU-s", "249.858 GPU-s"]);
    expect(costLevels([{ lost_gpu_ms: 240_220 }, { lost_gpu_ms: 240_221 }])[0]?.values).toEqual(["240.220 GPU-s", "240.221 GPU-s"]);
  });
});

describe("candidates", () => {
  const row = (job: string, rule: string, chosen = false, lost_gpu_ms = 0): Candidate => ({ action: "preempt", job, tasks: "", after: "", class_name: "train", priority: 50, project: "", gpu_milli: 1000, lost_gpu_ms, rule, chosen });
  test("chosen, then eligible, then protected", () => {
    const rows = [row("x", "min-runtime"), row("d", "", false, 9), row("c", "", false, 3), row("a", "budget"), row("v", "", true)];
    expect(sortedCandidates(rows).map((each) => each.job)).toEqual(["v", "c", "d", "a", "x"]);
    expect(counts(rows)).toEqual({ chosen: 1, eligible: 2, protected: 2 });
  });

  test("the surplus of a job stays before its core, whose loss is what it adds", () => {
    const part = (tasks: string, after: string, lost: number) => ({ ...row("wide", "", false, lost), tasks, after });
    const rows = [part("4-7", "", 9), part("0-3", "4-7", 0), row("small", "", false, 3)];
    expect(sortedCandidates(rows).map((each) => `${each.job}/${each.tasks}`)).toEqual(["small/", "wide/4-7", "wide/0-3"]);
  });

  test("without a list: the record's groups, each with action and rule text", () => {
    const why = { excluded: [{ rule: "reserved", jobs: 1, examples: ["a"] }], attempted_actions: [{ action: "reclaim" as const, refused: "impossible" as const, excluded: [{ rule: "quota-shields", jobs: 9 }] }] };
    expect(excludedGroups("preempt", why)).toEqual([
      { action: "reclaim", rule: "quota-shields", jobs: 9, examples: [], text: "is within the quota, or the fair share, of its project" },
      { action: "preempt", rule: "reserved", jobs: 1, examples: ["a"], text: "is waiting for resources reserved for it" },
    ]);
    expect(excludedGroups("preempt", undefined)).toEqual([]);
  });
});

describe("before and after", () => {
  const allocated: Cell = ["allocated", "a", null, [], null];
  const releasing: Cell = ["releasing", "a", "serve-2", [], null];
  const free: Cell = ["free", null, null, [], null];
  test("each changed GPU as text; changed nodes first", () => {
    const [before, after] = [{ nodes: { n0: aNode("n0", [free]), n1: aNode("n1", [allocated, free]) } }, { nodes: { n0: aNode("n0", [free]), n1: aNode("n1", [releasing, free]) } }];
    const changed = gpuChanges(before, after);
    expect(changed).toEqual([{ node: "n1", gpu: 0, before: "allocated to a", after: "being released by a, reserved for serve-2" }]);
    expect(affectedNodes(after, changed, 1).map((each) => each.node)).toEqual(["n1"]);
    expect(gpuChanges(null, after)).toHaveLength(3);
    expect(gpuChanges(before, null)).toEqual([]);
  });
});
