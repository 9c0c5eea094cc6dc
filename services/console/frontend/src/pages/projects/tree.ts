// The projects as a tree that can be folded.
import type { LiveProject } from "../../live/shapes";
import { verdict } from "./shares";

/** Folded from the start where there are more than this. */
export const FOLDED_ABOVE = 60;

export interface Branch {
  row: LiveProject;
  children: number;
  folded: boolean;
}

export interface Sought {
  /** A part of the name. */
  text: string;
  /** A verdict's word. */
  standing: string;
}

export const ALL: Sought = { text: "", standing: "" };
export const seeks = ({ text, standing }: Sought): boolean => Boolean(text.trim() || standing);

/** What is seen of the tree, parents before their children. root null: all of it. sought: only what fits, without folding. */
export function branches(rows: ReadonlyMap<string, LiveProject>, unfolded: (project: string) => boolean, root: string | null = null, sought = ALL): Branch[] {
  const under = new Map<string | null, LiveProject[]>();
  for (const row of rows.values()) under.set(row.parent, [...(under.get(row.parent) ?? []), row]);
  const found: Branch[] = [];
  const walk = (parent: string | null): void => {
    for (const row of under.get(parent) ?? []) {
      const children = under.get(row.project)?.length ?? 0;
      const folded = children > 0 && !unfolded(row.project);
      found.push({ row, children, folded });
      if (children && !folded && row.project !== parent) walk(row.project);
    }
  };
  if (seeks(sought)) {
    const wanted = sought.text.trim().toLowerCase();
    const fits = (row: LiveProject): boolean => row.project.toLowerCase().includes(wanted) && (!sought.standing || verdict(row).word === sought.standing);
    return [...rows.values()].filter(fits).map((row) => ({ row, children: 0, folded: false }));
  }
  walk(root);
  return found;
}

/** From the top down to it. */
export function pathTo(rows: ReadonlyMap<string, LiveProject>, project: string): string[] {
  const found: string[] = [];
  for (let at: string | null | undefined = project; at !== null && at !== undefined && !found.includes(at); at = rows.get(at)?.parent) found.unshift(at);
  return found;
}
