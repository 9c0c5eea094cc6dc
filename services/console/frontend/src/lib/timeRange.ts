// A range of time in the address of a page.

/** Two times in ISO; to is excluded. */
export interface Between {
  from: string;
  to: string;
}

/** The two times of an address; null: it has none, or no valid ones. */
export function betweenOf(query: Record<string, string | undefined>): Between | null {
  const time = (text: string | undefined): string | null => (text && Number.isFinite(Date.parse(text)) ? new Date(text).toISOString() : null);
  const [from, to] = [time(query.from), time(query.to)];
  return from !== null && to !== null && from < to ? { from, to } : null;
}

/** The two times in an address, as short as they are: `2026-01-31`, `2026-01-31T12:00Z`. */
export const betweenQuery = ({ from, to }: Between): [string, string][] => [["from", short(from)], ["to", short(to)]];

const short = (iso: string): string => iso.replace(/\.000Z$/, "Z").replace(/T00:00:00Z$/, "").replace(/(T\d\d:\d\d):00Z$/, "$1Z");
