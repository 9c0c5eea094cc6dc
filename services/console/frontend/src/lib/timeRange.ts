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

const HOUR_MS = 3_600_000;
const RANGES = { "10m": ["10 minutes", 1 / 6], "1h": ["1 hour", 1], "6h": ["6 hours", 6], "24h": ["24 hours", 24], "7d": ["7 days", 168], "30d": ["30 days", 720], "1y": ["1 year", 8_760] } as const;
export type Range = keyof typeof RANGES;

/** The options of a picker with these ranges up to now. */
export const rangeOptions = <R extends Range>(...ranges: R[]): readonly [R, string][] => ranges.map((range) => [range, RANGES[range][0]]);

/** The length of a range, ms. */
export const rangeLength = (range: Range): number => RANGES[range][1] * HOUR_MS;

/** When a range begins that ends at this time. */
export const rangeStart = (to: string, range: Range): string => new Date(Date.parse(to) - rangeLength(range)).toISOString();
