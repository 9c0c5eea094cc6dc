import { expect, test } from "vitest";

import { inOrder } from "./inOrder";

test("numbers in names count", () => {
  const rows = { "node-10": 1, "node-2": 2, "rack2-node-1": 3, "rack10-node-0": 4, a: 5 };
  expect(inOrder(rows).map(([name]) => name)).toEqual(["a", "node-2", "node-10", "rack2-node-1", "rack10-node-0"]);
  expect(inOrder(undefined)).toEqual([]);
});
