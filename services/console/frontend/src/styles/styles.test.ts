import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const SRC = new URL("..", import.meta.url).pathname;
const BARE = /^\s*\.([\w-]+)\s*$/;

/** The classes that a stylesheet styles on their own. */
function classesOf(file: string): Set<string> {
  const css = readFileSync(SRC + file, "utf8").replace(/\/\*.*?\*\//gs, "");
  const selectors = [...css.matchAll(/([^{}]+)\{/g)].flatMap(([, list]) => list!.split(","));
  return new Set(selectors.flatMap((selector) => BARE.exec(selector)?.[1] ?? []));
}

// Stylesheets of pages stay loaded: if two of them style one class, the last one loaded wins.
test("no class is styled by two stylesheets", () => {
  const sheets: string[] = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".css"));
  // A receipt is a document of its own, with its own stylesheet only.
  const files = sheets.filter((name) => !name.startsWith("receipt/"));
  const places = new Map<string, string[]>();
  for (const file of files) for (const name of classesOf(file)) places.set(name, [...(places.get(name) ?? []), file]);
  expect(files.length).toBeGreaterThan(10);
  expect([...places].filter(([, where]) => where.length > 1)).toEqual([]);
});
