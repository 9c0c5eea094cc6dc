// Assigns a colour, pattern and letter to each project or priority class.
import type { ClassRow, LiveJob, LiveProject } from "../api";
import { highestFirst } from "./priorityClasses";

export const COLOURS = 10;
const PATTERNS = 4;

/** colour: index of ten; pattern: 0 is solid, others when the colours are used up; letter: identifies it without colour. */
export interface Group {
  key: string;
  name: string;
  colour: number;
  pattern: number;
  letter: string;
}

export type By = "project" | "class";

export const keyOf = (job: LiveJob, by: By): string => (by === "project" ? job.project : job.priority_class);

/** The groups by key. Colours follow the order of projects or classes in the policy, not the running jobs. */
export function groupsOf(names: readonly string[]): Map<string, Group> {
  const taken = new Set<string>();
  const commonPrefix = commonStart(names.filter(Boolean));
  return new Map(
    names.map((key, at) => {
      const letter = key === "" ? "–" : letterFor(key.slice(commonPrefix), key, taken);
      taken.add(letter);
      return [key, { key, name: key || "no project", colour: at % COLOURS, pattern: Math.floor(at / COLOURS) % PATTERNS, letter }];
    }),
  );
}

/** The first unused letter of the name, else any unused letter, else two characters. */
function letterFor(rest: string, name: string, taken: ReadonlySet<string>): string {
  const own = [...rest.toUpperCase(), ...name.toUpperCase()].filter((each) => /[A-Z0-9]/.test(each));
  const any = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"];
  const one = [...own, ...any].find((each) => !taken.has(each));
  if (one !== undefined) return one;
  const first = own[0] ?? "X";
  return any.map((each) => first + each.toLowerCase()).find((each) => !taken.has(each)) ?? first;
}

/** Projects in the policy's order, then others that jobs name. */
export function projectNames(projects: Iterable<LiveProject>, jobs: Iterable<LiveJob>): string[] {
  const known = [...projects].map((row) => row.project);
  const more = new Set([...jobs].map((job) => job.project));
  for (const name of known) more.delete(name);
  return [...known, ...[...more].sort()];
}

/** Length of the common prefix of the names. */
function commonStart(names: readonly string[]): number {
  const [first = "", ...others] = names;
  if (!others.length) return 0;
  let at = 0;
  while (at < first.length && others.every((name) => name[at] === first[at])) at += 1;
  return at;
}

/** Priority classes, highest first. */
export function classNames(classes: readonly ClassRow[], jobs: Iterable<LiveJob>): string[] {
  const known = highestFirst(classes).map((row) => row.priority_class);
  const more = new Set([...jobs].map((job) => job.priority_class));
  for (const name of known) more.delete(name);
  return [...known, ...[...more].sort()];
}
