import { describe, expect, it } from "vitest";

import { aJob, aNode, aProject, FREE, held, jobMap, leaving, projectMap } from "../rows.fixture";
import { jobAt, NO_FILTER, nodesShown, runsOf, tally, wantedBy, within } from "./selecting";
import { runEnd } from "./paint";

const jobs = jobMap(aJob("train-1"), aJob("serve-1", { project: "serving", class: "serve" }));
const nodes = [
  aNode("node-2", [held("serve-1"), FREE], { number: 1 }),
  aNode("node-1", [held("train-1"), leaving("train-1", "serve-1"), ["quarantined", null, null, [], "dirty"]], { number: 0 }),
  aNode("node-3", [FREE, FREE], { number: 2, state: "drained" }),
];

describe("what is asked for", () => {
  const shown = (filter: Partial<typeof NO_FILTER>, projects: ReadonlySet<string> | null = null): string[] => {
    const whole = { ...NO_FILTER, ...filter };
    return nodesShown(nodes, whole, wantedBy(whole, jobs, projects)).map((node) => node.node);
  };

  it("is everything at first, in the order of the nodes", () => expect(shown({})).toEqual(["node-1", "node-2", "node-3"]));

  it("can be a state of GPUs, a state of nodes, or a part of a name", () => {
    expect(shown({ state: "quarantined" })).toEqual(["node-1"]);
    expect(shown({ state: "free" })).toEqual(["node-2", "node-3"]);
    expect(shown({ state: "drained" })).toEqual(["node-3"]);
    expect(shown({ node: " NODE-2 " })).toEqual(["node-2"]);
  });

  it("can be a project with all below it: who holds, and for whom something is kept", () => {
    expect(shown({ project: "serving" }, new Set(["serving"]))).toEqual(["node-1", "node-2"]);
    const tree = projectMap(
      aProject("top", 0, 1, 1),
      aProject("leaf", 0, 1, 1, { parent: "middle", depth: 2 }),
      aProject("middle", 0, 1, 1, { parent: "top", depth: 1 }),
      aProject("else", 0, 1, 1),
    );
    expect([...within(tree, "top")].sort()).toEqual(["leaf", "middle", "top"]);
  });
});

describe("counts", () => {
  it("tell what is free from what could be had, and who holds how many", () => {
    const found = tally(nodes, jobs, "project");
    expect(found.gpus).toBe(7);
    expect(found.states.free).toBe(3);
    expect(found.usable).toBe(1);
    expect(Object.fromEntries(found.groups)).toEqual({ research: 2, serving: 1 });
    expect(Object.fromEntries(tally(nodes, jobs, "class").groups)).toEqual({ train: 2, serve: 1 });
    expect(found.nodes).toEqual({ ready: 2, drained: 1 });
  });
});

describe("GPUs side by side", () => {
  it("are one where they say the same", () => {
    const node = aNode("n", [held("a"), held("a"), held("b"), FREE, FREE, held("a", "b")]);
    expect(runsOf(node).map(({ from, to }) => [from, to])).toEqual([[0, 1], [2, 2], [3, 4], [5, 5]]);
  });

  it("carry one name per line, and free ones stay single", () => {
    const gpus = [held("a"), held("a"), held("a"), held("a"), FREE, FREE];
    expect(runEnd(gpus, 0, 8)).toBe(3);
    expect(runEnd(gpus, 0, 2)).toBe(1);
    expect(runEnd(gpus, 4, 8)).toBe(4);
  });

  it("lead to who holds them, who shares them, or for whom they are kept", () => {
    expect(jobAt(held("a", "b"))).toBe("a");
    expect(jobAt(["shared", null, null, ["x/with/slashes/3"], null])).toBe("x/with/slashes");
    expect(jobAt(["reserved", null, "b", [], null])).toBe("b");
    expect(jobAt(FREE)).toBeNull();
  });
});
