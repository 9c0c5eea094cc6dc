import { describe, expect, test } from "vitest";

import { sanitizeLine } from "../../lib/sanitizeLine";
import { LogLines } from "./logLines";

describe("sanitizing a log line", () => {
  test.each([
    ["colours", "\u001b[1;31mred\u001b[0m text", "red text"],
    ["a terminal title", "\u001b]0;owned\u0007after", "after"],
    ["a terminal link", "\u001b]8;;http://x\u001b\\name\u001b]8;;\u001b\\", "name"],
    ["cursor movement", "\u001b[2J\u001b[Hcleared", "cleared"],
    ["eight-bit escapes", "\u009b31mred", "red"],
    ["a progress bar", "10%\r50%\r100%", "100%"],
    ["line endings", "done\r\n", "done"],
    ["control characters", "a\u0000b\u0007c", "a�b�c"],
    ["bidirectional overrides", "safe\u202egpj.exe", "safe�gpj.exe"],
    ["a tab", "a\tb", "a\tb"],
    ["markup", "<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"],
  ])("%s", (_, text, shown) => expect(sanitizeLine(text)).toBe(shown));

  test("very long lines are truncated", () => {
    expect(sanitizeLine("x".repeat(10_000))).toMatch(/^x{4000} … \(6000 more characters\)$/);
  });
});

describe("the line buffer", () => {
  test("keeps the newest lines and counts the others", () => {
    const lines = new LogLines(100);
    for (let at = 0; at < 1_000; at += 1) lines.add({ task: at % 2, attempt: 1, text: `line ${at}` });
    expect([lines.count, lines.dropped]).toEqual([1_000, 900]);
    expect(lines.shown(3).map((line) => line.text)).toEqual(["line 997", "line 998", "line 999"]);
    expect(lines.shown(1_000)).toHaveLength(100);
  });

  test("filters by task, and stops where the user paused", () => {
    const lines = new LogLines(100);
    for (let at = 0; at < 10; at += 1) lines.add({ task: at % 2, text: `${at}` });
    expect(lines.shown(2, 1).map((line) => line.text)).toEqual(["7", "9"]);
    expect(lines.shown(2, null, 5).map((line) => line.text)).toEqual(["3", "4"]);
    expect([...lines.tasks]).toEqual([0, 1]);
  });
});
