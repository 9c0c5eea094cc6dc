import type { ClassRow } from "../api";

export const highestFirst = (classes: readonly ClassRow[]): ClassRow[] => classes.toSorted((one, other) => other.value - one.value || (one.priority_class < other.priority_class ? -1 : 1));

/** A class as an option: `batch (50, not preemptible)`. */
export const classOption = (row: ClassRow): [string, string] => [row.priority_class, `${row.priority_class} (${row.value}${row.preemptible ? "" : ", not preemptible"})`];
