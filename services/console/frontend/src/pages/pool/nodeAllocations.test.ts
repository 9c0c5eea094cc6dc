import { expect, it } from "vitest";

import { allocated, aNode, FREE, releasing } from "../../testing/liveRows";
import { allocationsOn, ranges } from "./nodeAllocations";

it("lists each job of a node once, with its GPUs and the job that they are reserved for", () => {
  const node = aNode("n", [allocated("a"), allocated("a"), releasing("b", "c"), allocated("a"), FREE, ["shared", "x", null, ["x/0", "y/0", "y/1"], null]]);
  expect(allocationsOn(node)).toEqual([
    { job: "a", gpus: "0–1, 3", reservedFor: null },
    { job: "b", gpus: "2", reservedFor: "c" },
    { job: "x", gpus: "5", reservedFor: null },
    { job: "y", gpus: "5", reservedFor: null },
  ]);
  expect(ranges([])).toBe("");
});
