import { expect, it } from "vitest";

import { holdsOn, ranges } from "./holds";
import { aNode, FREE, held, leaving } from "./rows.fixture";

it("names each job of a node once, with its GPUs and who comes after it", () => {
  const node = aNode("n", [held("a"), held("a"), leaving("b", "c"), held("a"), FREE, ["shared", "x", null, ["x/0", "y/0", "y/1"], null]]);
  expect(holdsOn(node)).toEqual([
    { job: "a", gpus: "0–1, 3", then: null },
    { job: "b", gpus: "2", then: "c" },
    { job: "x", gpus: "5", then: null },
    { job: "y", gpus: "5", then: null },
  ]);
  expect(ranges([])).toBe("");
});
