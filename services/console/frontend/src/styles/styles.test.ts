import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
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

const read = (file: string): string => readFileSync(SRC + file, "utf8");
const styled = (file: string): string[] => [...read(file).replace(/\/\*.*?\*\//gs, "").matchAll(/([^{}]+)\{/g)].flatMap(([, list]) => [...list!.matchAll(/\.([a-z][\w-]*)/gi)].map(([, name]) => name!));
const worn = (file: string): string[] => [...read(file).matchAll(/class="([^"]+)"/g)].flatMap(([, names]) => names!.split(" "));

/** The file and all that it imports, of these sources. */
function imported(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file)) return found;
  found.add(file);
  if (file.endsWith(".css")) return found;
  for (const [, from] of read(file).matchAll(/^(?:import|export) (?!type)(?:[^;]*? from )?"(\.[^"]+)";/gm)) {
    const to = join(dirname(file), from!);
    const at = [to, `${to}.ts`, `${to}.tsx`, `${to}/index.ts`].find((each) => existsSync(SRC + each) && statSync(SRC + each).isFile());
    if (at) imported(at, found);
  }
  return found;
}

// A stylesheet that only another page imports is there once that page was opened, and not before.
test("a page loads the styles of every class that it uses", () => {
  const shell = imported("main.tsx");
  const pages = [...read("shell/App.tsx").matchAll(/import\("\.\.\/(pages\/[^"]+)"\)/g)].map(([, page]) => `${page}.tsx`);
  const known = new Set(readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".css") && !name.startsWith("receipt/")).flatMap(styled));
  const missing = ["main.tsx", ...pages].flatMap((page) => {
    const files = [...new Set([...shell, ...imported(page)])];
    const there = new Set(files.filter((file) => file.endsWith(".css")).flatMap(styled));
    return files.filter((file) => file.endsWith(".tsx")).flatMap((file) => worn(file).filter((name) => known.has(name) && !there.has(name)).map((name) => `${page}: ${name} of ${file}`));
  });
  expect(pages.length).toBeGreaterThan(10);
  expect(missing).toEqual([]);
});
