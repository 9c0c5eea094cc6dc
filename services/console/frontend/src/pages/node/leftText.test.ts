import { expect, test } from "vitest";

import { leftText } from "./leftText";

test("what a node cannot remove is said with the way to remove it", () => {
  expect(leftText("n1", { left_folders: 1, left_example: "/state/unfinished/a: busy" })?.what).toBe("n1 cannot remove what 1 task left.");
  const several = leftText("n1", { left_folders: 3, left_example: "/state/unfinished/a: busy" });
  expect(several?.what).toBe("n1 cannot remove what 3 tasks left. The first:");
  expect(several?.remedy).toContain("chattr -i, umount or rm");
});

test("nothing is shown where nothing is left, or where the agent's reports cannot be read", () => {
  expect(leftText("n1", { left_folders: 0, left_example: "" })).toBeNull();
  expect(leftText("n1", { left_folders: null, left_example: "" })).toBeNull();
});
