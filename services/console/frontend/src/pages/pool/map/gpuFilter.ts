// Filters nodes and GPUs, and counts them by state and group.
import type { Cell, CellState, LiveJob, LiveNode } from "../../../api";
import { keyOf, type By } from "../../../shared/colourGroups";

export const CELL_STATES: readonly CellState[] = ["allocated", "shared", "releasing", "reserved", "free", "quarantined", "unhealthy"];
export const NODE_STATES = ["draining", "drained", "unreachable", "lost"] as const;

export interface Filter {
  /** A state of a GPU or a node; "": any. */
  state: string;
  /** null: any. */
  project: string | null;
  node: string;
}

export const NO_FILTER: Filter = { state: "", project: null, node: "" };
export const isFiltering = (filter: Filter): boolean => filter.state !== "" || filter.project !== null || filter.node !== "";

/** All jobs of a GPU: allocated to, shared by, reserved for. */
export function jobsOn(cell: Cell): string[] {
  const found = [cell[1], cell[2], ...cell[3].map(jobOfTask)];
  return [...new Set(found.filter((each): each is string => Boolean(each)))];
}

export const jobOfTask = (text: string): string => text.replace(/\/\d+$/, "");

/** The job that a click on the GPU opens. */
export const jobAt = (cell: Cell): string | null => cell[1] ?? (cell[3][0] ? jobOfTask(cell[3][0]) : cell[2]);

export type CellPredicate = (node: LiveNode, cell: Cell) => boolean;

/** A predicate for GPUs that match the filter. projects: the subtree, null: any. */
export function filterPredicate(filter: Filter, jobs: ReadonlyMap<string, LiveJob>, projects: ReadonlySet<string> | null): CellPredicate {
  const ofNode = (NODE_STATES as readonly string[]).includes(filter.state);
  return (node, cell) => {
    if (filter.state && (ofNode ? node.state !== filter.state : cell[0] !== filter.state)) return false;
    if (projects === null) return true;
    return jobsOn(cell).some((name) => projects.has(jobs.get(name)?.project ?? "\0"));
  };
}

/** The nodes with matching GPUs. */
export function nodesShown(nodes: Iterable<LiveNode>, filter: Filter, wanted: CellPredicate): LiveNode[] {
  const name = filter.node.trim().toLowerCase();
  const narrow = filter.state !== "" || filter.project !== null;
  return [...nodes].filter((node) => (!name || node.node.toLowerCase().includes(name)) && (!narrow || node.devices.some((cell) => wanted(node, cell))));
}

export interface Tally {
  gpus: number;
  states: Record<CellState, number>;
  /** Free, on a schedulable node. */
  usable: number;
  nodes: Record<string, number>;
  /** Allocated GPUs by project or class. */
  groups: Map<string, number>;
}

export function tally(nodes: Iterable<LiveNode>, jobs: ReadonlyMap<string, LiveJob>, by: By): Tally {
  const states: Record<CellState, number> = { allocated: 0, shared: 0, releasing: 0, reserved: 0, free: 0, quarantined: 0, unhealthy: 0 };
  const found: Tally = { gpus: 0, states, usable: 0, nodes: {}, groups: new Map() };
  for (const node of nodes) {
    found.nodes[node.state] = (found.nodes[node.state] ?? 0) + 1;
    for (const cell of node.devices) {
      found.gpus += 1;
      states[cell[0]] += 1;
      if (cell[0] === "free" && node.state === "ready") found.usable += 1;
      const job = cell[1] === null ? undefined : jobs.get(cell[1]);
      if (job) found.groups.set(keyOf(job, by), (found.groups.get(keyOf(job, by)) ?? 0) + 1);
    }
  }
  return found;
}

/** A run of equal adjacent GPUs, from and to inclusive. */
export interface Run {
  from: number;
  to: number;
  cell: Cell;
}

export function runsOf(node: LiveNode): Run[] {
  const runs: Run[] = [];
  node.devices.forEach((cell, at) => {
    const last = runs.at(-1);
    if (last && JSON.stringify(last.cell) === JSON.stringify(cell)) last.to = at;
    else runs.push({ from: at, to: at, cell });
  });
  return runs;
}
