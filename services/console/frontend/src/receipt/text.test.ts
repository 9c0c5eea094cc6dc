import { expect, test } from "vitest";

import type { Decoded } from "./contents";
import { stage } from "./text";

const told = (data: object) => stage({ kind: "TaskExited", data: { task: 0, ...data } } as unknown as Decoded);

test("the exit of a victim names its code, its signal, or that nobody saw it", () => {
  expect(told({ exit_code: 85 })).toBe("Task 0 exited with code 85");
  expect(told({ exit_code: -15 })).toBe("Task 0 ended by signal 15 (SIGTERM)");
  expect(told({ exit_code: -9, unobserved: true })).toBe("Task 0 exited with unobserved status");
});
