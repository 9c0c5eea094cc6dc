import { expect, it } from "vitest";

import { signingKey } from "./signingKey";

it("reads the key that signed a request, and nothing from headers that are none", () => {
  expect(signingKey('{"key":"A6EH","sig":"x"}')).toBe("A6EH");
  for (const other of [undefined, "", "{", "null", "[]", '{"key":1}']) expect(signingKey(other)).toBeNull();
});
