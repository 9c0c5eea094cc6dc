import { expect, test } from "vitest";

import { ansiSpans } from "./ansiSpans";

const shown = (line: string): string[] | undefined => ansiSpans(line)?.map((span) => `${span.text}|${span.classes}`);

test("colours and styles become classes", () => {
  expect(shown("plain \u001b[1;31mred\u001b[0m \u001b[32mgreen")).toEqual(["plain |", "red|ansi-bad ansi-bold", " |", "green|ansi-good"]);
  expect(shown("\u001b[4;94munder\u001b[24m blue\u001b[39m none")).toEqual(["under|ansi-accent ansi-underline", " blue|ansi-accent", " none|"]);
});

test("colours that may be unreadable are left out, with all their numbers", () => {
  expect(shown("\u001b[38;2;1;2;3ma\u001b[1mb")).toEqual(["a|", "b|ansi-bold"]);
  expect(shown("\u001b[38;5;9ma\u001b[38;5;200mb")).toEqual(["a|ansi-bad", "b|"]);
  expect(shown("\u001b[41;31mred on red\u001b[48;5;1m")).toEqual(["red on red|ansi-bad"]);
});

test("nothing but colours comes through", () => {
  expect(shown("\u001b[31ma\u001b]0;title\u0007b\u001b[2Jc\u0000\u202e<b>")).toEqual(["abc��<b>|ansi-bad"]);
  expect(ansiSpans("no colours")).toBeNull();
  expect(ansiSpans("\u001b[0mno colours\u001b[K")).toBeNull();
});

test("a line has no more parts than the page can draw", () => {
  const line = Array.from({ length: 3_000 }, (_, at) => `\u001b[${31 + (at % 2)}mx`).join("");
  expect(ansiSpans(line)!.length).toBeLessThanOrEqual(201);
});
