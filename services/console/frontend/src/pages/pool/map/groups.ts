// Which colour, pattern and letter stand for a project or a class.
import type { ClassRow, LiveJob, LiveProject } from "../../../live/shapes";

export const COLOURS = 10;
const PATTERNS = 4;

/** colour: one of the ten; pattern: 0 plain, then others where the colours run out; letter: told apart without colour. */
export interface Group {
  key: string;
  name: string;
  colour: number;
  pattern: number;
  letter: string;
}

export type By = "project" | "class";

export const keyOf = (job: LiveJob, by: By): string => (by === "project" ? job.project : job.class);

/** Names keep their colour while the policy stays: it depends on the order of the projects or classes, not on who runs. */
export function groupsOf(names: readonly string[]): Map<string, Group> {
  const taken = new Set<string>();
  const alike = commonStart(names.filter(Boolean));
  return new Map(
    names.map((key, at) => {
      const letter = key === "" ? "–" : letterFor(key.slice(alike), key, taken);
      taken.add(letter);
      return [key, { key, name: key || "no project", colour: at % COLOURS, pattern: Math.floor(at / COLOURS) % PATTERNS, letter }];
    }),
  );
}

/** Its first letter, else another one of its own, else any that is left; two characters where all are taken. */
function letterFor(rest: string, name: string, taken: ReadonlySet<string>): string {
  const own = [...rest.toUpperCase(), ...name.toUpperCase()].filter((each) => /[A-Z0-9]/.test(each));
  const any = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"];
  const one = [...own, ...any].find((each) => !taken.has(each));
  if (one !== undefined) return one;
  const first = own[0] ?? "X";
  return any.map((each) => first + each.toLowerCase()).find((each) => !taken.has(each)) ?? first;
}

/** In the policy's order, then what jobs name beyond it. */
export function projectNames(projects: Iterable<LiveProject>, jobs: Iterable<LiveJob>): string[] {
  const known = [...projects].map((row) => row.project);
  const more = new Set([...jobs].map((job) => job.project));
  for (const name of known) more.delete(name);
  return [...known, ...[...more].sort()];
}

/** How many characters all of several names begin with. */
function commonStart(names: readonly string[]): number {
  const [first = "", ...others] = names;
  if (!others.length) return 0;
  let at = 0;
  while (at < first.length && others.every((name) => name[at] === first[at])) at += 1;
  return at;
}

/** The highest class first. */
export function classNames(classes: readonly ClassRow[], jobs: Iterable<LiveJob>): string[] {
  const known = [...classes].sort((a, b) => b.value - a.value || (a.priority_class < b.priority_class ? -1 : 1)).map((row) => row.priority_class);
  const more = new Set([...jobs].map((job) => job.class));
  for (const name of known) more.delete(name);
  return [...known, ...[...more].sort()];
}
