import { expect, test } from "vitest";

import { columns } from "./Chart";

test("a value holds until the next time, and the last one until the end; a gap stays one", () => {
  expect(columns([0, 1_000], 3_000, [{ name: "a", kind: "area", values: [1, null] }, { name: "b", kind: "line", values: [5, 6] }])).toEqual([[0, 1, 3], [1, null, null], [5, 6, 6]]);
});

test("stacked series are drawn on those before them, and other lines from 0", () => {
  const stacked = (name: string, values: number[]) => ({ name, kind: "stacked" as const, values });
  expect(columns([0, 1_000], 2_000, [stacked("a", [1, 2]), stacked("b", [3, 4]), { name: "capacity", kind: "dashed", values: [9, 9] }])).toEqual([[0, 1, 2], [1, 2, 2], [4, 6, 6], [9, 9, 9]]);
});

test("an end before the last time, or no times at all, still give an axis", () => {
  expect(columns([5_000], 4_000, [{ name: "a", kind: "line", values: [1] }])[0]).toEqual([5, 5.001]);
  expect(columns([], 4_000, [{ name: "a", kind: "line", values: [] }])).toEqual([[4], [null]]);
});
