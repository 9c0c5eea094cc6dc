import { describe, expect, it } from "vitest";

import { projectSubtree } from "../../../shared/shareText";
import { aJob, allocated, aNode, aProject, FREE, jobMap, projectMap, releasing } from "../../../testing/liveRows";
import { filterPredicate, jobAt, NO_FILTER, nodesShown, runsOf, tally } from "./gpuFilter";
import { runEnd } from "./paintMap";

const jobs = jobMap(aJob("train-1"), aJob("serve-1", { project: "serving", priority_class: "serve" }));
const nodes = [
  aNode("node-1", [allocated("train-1"), releasing("train-1", "serve-1"), ["quarantined", null, null, [], "dirty"]]),
  aNode("node-2", [allocated("serve-1"), FREE]),
  aNode("node-3", [FREE, FREE], { state: "drained" }),
];

describe("the filter", () => {
  const shown = (filter: Partial<typeof NO_FILTER>, projects: ReadonlySet<string> | null = null): string[] => {
    const whole = { ...NO_FILTER, ...filter };
    return nodesShown(nodes, whole, filterPredicate(whole, jobs, projects)).map((node) => node.node);
  };

  it("is empty at first: all nodes", () => expect(shown({})).toEqual(["node-1", "node-2", "node-3"]));

  it("matches a GPU state, a node state, or part of a node name", () => {
    expect(shown({ state: "quarantined" })).toEqual(["node-1"]);
    expect(shown({ state: "free" })).toEqual(["node-2", "node-3"]);
    expect(shown({ state: "drained" })).toEqual(["node-3"]);
    expect(shown({ node: " NODE-2 " })).toEqual(["node-2"]);
  });

  it("matches a project with its descendants: allocated and reserved GPUs", () => {
    expect(shown({ project: "serving" }, new Set(["serving"]))).toEqual(["node-1", "node-2"]);
    const tree = projectMap(
      aProject("top", 0, 1, 1),
      aProject("leaf", 0, 1, 1, { parent: "middle", depth: 2 }),
      aProject("middle", 0, 1, 1, { parent: "top", depth: 1 }),
      aProject("else", 0, 1, 1),
    );
    expect([...projectSubtree(tree, "top")].sort()).toEqual(["leaf", "middle", "top"]);
  });
});

describe("counts", () => {
  it("distinguish free from schedulable GPUs, and count by group", () => {
    const found = tally(nodes, jobs, "project");
    expect(found.gpus).toBe(7);
    expect(found.states.free).toBe(3);
    expect(found.usable).toBe(1);
    expect(Object.fromEntries(found.groups)).toEqual({ research: 2, serving: 1 });
    expect(Object.fromEntries(tally(nodes, jobs, "class").groups)).toEqual({ train: 2, serve: 1 });
    expect(found.nodes).toEqual({ ready: 2, drained: 1 });
  });
});

describe("runs of GPUs", () => {
  it("join equal adjacent GPUs", () => {
    const node = aNode("n", [allocated("a"), allocated("a"), allocated("b"), FREE, FREE, allocated("a", "b")]);
    expect(runsOf(node).map(({ from, to }) => [from, to])).toEqual([[0, 1], [2, 2], [3, 4], [5, 5]]);
  });

  it("end at line breaks, and exclude free GPUs", () => {
    const gpus = [allocated("a"), allocated("a"), allocated("a"), allocated("a"), FREE, FREE];
    expect(runEnd(gpus, 0, 8)).toBe(3);
    expect(runEnd(gpus, 0, 2)).toBe(1);
    expect(runEnd(gpus, 4, 8)).toBe(4);
  });

  it("open the job allocated, sharing or reserved", () => {
    expect(jobAt(allocated("a", "b"))).toBe("a");
    expect(jobAt(["shared", null, null, ["x/with/slashes/3"], null])).toBe("x/with/slashes");
    expect(jobAt(["reserved", null, "b", [], null])).toBe("b");
    expect(jobAt(FREE)).toBeNull();
  });
});
