import { expect, test } from "vitest";

import { userText } from "./userText";

test("a user whom nothing verifies is named as such; where nothing is known, the name alone", () => {
  expect([userText("ada", true), userText("ada", false), userText("ada", null), userText("", false), userText(null, false)]).toEqual(["ada", "ada (not verified)", "ada", "", ""]);
});
