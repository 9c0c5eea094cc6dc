const key = (name: string): string => name.replace(/\d+/g, (digits) => digits.padStart(15, "0"));

/** Rows by name, in the order of people: node-2 before node-10. */
export function inOrder<T>(rows: Record<string, T> | undefined): [string, T][] {
  const keyed = Object.entries(rows ?? {}).map((entry) => ({ entry, key: key(entry[0]) }));
  return keyed.sort((one, other) => (one.key < other.key ? -1 : one.key > other.key ? 1 : 0)).map(({ entry }) => entry);
}
