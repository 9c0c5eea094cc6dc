import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const SRC = new URL("..", import.meta.url).pathname;
const BARE = /^\s*\.([\w-]+)\s*$/;

/** The classes that a stylesheet gives their look, wherever they are. */
function classesOf(file: string): Set<string> {
  const css = readFileSync(SRC + file, "utf8").replace(/\/\*.*?\*\//gs, "");
  const selectors = [...css.matchAll(/([^{}]+)\{/g)].flatMap(([, list]) => list!.split(","));
  return new Set(selectors.flatMap((selector) => BARE.exec(selector)?.[1] ?? []));
}

// A page's stylesheet stays when another page is opened: one class in two of them looks like whichever came last.
test("no class is given its look by two stylesheets", () => {
  const files: string[] = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".css"));
  const places = new Map<string, string[]>();
  for (const file of files) for (const name of classesOf(file)) places.set(name, [...(places.get(name) ?? []), file]);
  expect(files.length).toBeGreaterThan(10);
  expect([...places].filter(([, where]) => where.length > 1)).toEqual([]);
});
