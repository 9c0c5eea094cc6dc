import { describe, expect, test } from "vitest";

import { plainLine } from "../../lib/plain";
import { LogLines } from "./logLines";

describe("a line of a log", () => {
  test.each([
    ["colours", "\u001b[1;31mred\u001b[0m text", "red text"],
    ["a title of the terminal", "\u001b]0;owned\u0007after", "after"],
    ["a link of the terminal", "\u001b]8;;http://x\u001b\\name\u001b]8;;\u001b\\", "name"],
    ["a cursor that moves", "\u001b[2J\u001b[Hcleared", "cleared"],
    ["the eight-bit form", "\u009b31mred", "red"],
    ["a progress bar", "10%\r50%\r100%", "100%"],
    ["an end of line", "done\r\n", "done"],
    ["bytes that are no text", "a\u0000b\u0007c", "a�b�c"],
    ["text turned round", "safe\u202egpj.exe", "safe�gpj.exe"],
    ["a tab", "a\tb", "a\tb"],
    ["markup", "<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"],
  ])("%s", (_, text, shown) => expect(plainLine(text)).toBe(shown));

  test("a very long one is cut, and says so", () => {
    expect(plainLine("x".repeat(10_000))).toMatch(/^x{4000} … \(6000 more characters\)$/);
  });
});

describe("the lines that are kept", () => {
  test("the newest stay, whatever comes, and the others are counted", () => {
    const lines = new LogLines(100);
    for (let at = 0; at < 1_000; at += 1) lines.add({ task: at % 2, attempt: 1, text: `line ${at}` });
    expect([lines.count, lines.dropped]).toEqual([1_000, 900]);
    expect(lines.shown(3).map((line) => line.text)).toEqual(["line 997", "line 998", "line 999"]);
    expect(lines.shown(1_000)).toHaveLength(100);
  });

  test("of one task, and up to where the reader paused", () => {
    const lines = new LogLines(100);
    for (let at = 0; at < 10; at += 1) lines.add({ task: at % 2, text: `${at}` });
    expect(lines.shown(2, 1).map((line) => line.text)).toEqual(["7", "9"]);
    expect(lines.shown(2, null, 5).map((line) => line.text)).toEqual(["3", "4"]);
    expect([...lines.tasks]).toEqual([0, 1]);
  });
});
