// The rows of the collapsible project tree.
import type { LiveProject } from "../../api";
import { shareStatus } from "../../shared/shareText";

/** Trees with more projects are collapsed initially. */
export const COLLAPSED_ABOVE = 60;

export interface TreeRow {
  row: LiveProject;
  children: number;
  collapsed: boolean;
}

interface TreeFilter {
  /** Part of the name. */
  text: string;
  /** A status label; "": any. */
  status: string;
}

export const ALL: TreeFilter = { text: "", status: "" };
export const isSearching = ({ text, status }: TreeFilter): boolean => Boolean(text.trim() || status);

/** The visible rows, parents before children. root null: the whole tree. treeFilter: only matches, as a flat list. */
export function treeRows(rows: ReadonlyMap<string, LiveProject>, isExpanded: (project: string) => boolean, root: string | null = null, treeFilter = ALL): TreeRow[] {
  const under = new Map<string | null, LiveProject[]>();
  for (const row of rows.values()) under.set(row.parent, [...(under.get(row.parent) ?? []), row]);
  const found: TreeRow[] = [];
  const walk = (parent: string | null): void => {
    for (const row of under.get(parent) ?? []) {
      const children = under.get(row.project)?.length ?? 0;
      const collapsed = children > 0 && !isExpanded(row.project);
      found.push({ row, children, collapsed });
      if (children && !collapsed && row.project !== parent) walk(row.project);
    }
  };
  if (isSearching(treeFilter)) {
    const wanted = treeFilter.text.trim().toLowerCase();
    const fits = (row: LiveProject): boolean => row.project.toLowerCase().includes(wanted) && (!treeFilter.status || shareStatus(row).word === treeFilter.status);
    return [...rows.values()].filter(fits).map((row) => ({ row, children: 0, collapsed: false }));
  }
  walk(root);
  return found;
}

/** The path from the root to the project. */
export function pathTo(rows: ReadonlyMap<string, LiveProject>, project: string): string[] {
  const found: string[] = [];
  for (let at: string | null | undefined = project; at !== null && at !== undefined && !found.includes(at); at = rows.get(at)?.parent) found.unshift(at);
  return found;
}
