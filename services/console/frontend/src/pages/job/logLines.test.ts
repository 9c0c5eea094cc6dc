import { describe, expect, test } from "vitest";

import { sanitizeLine } from "../../lib";
import { LogLines } from "./logLines";
import { logText } from "./LogTools";

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

test("a search finds lines in whatever case, and the file has times and tasks", () => {
  const lines = new LogLines();
  lines.add({ task: 0, at: "2026-01-31T12:00:00Z", text: "\u001b[31mError\u001b[0m: disk full" });
  lines.add({ task: 1, at: "2026-01-31T12:00:01Z", text: "ok" });
  expect(lines.shown(10, null, Infinity, "ERROR: d").map((line) => line.number)).toEqual([0]);
  expect(logText(lines.shown(10))).toBe("2026-01-31T12:00:00Z task 0 Error: disk full\n2026-01-31T12:00:01Z task 1 ok\n");
});
