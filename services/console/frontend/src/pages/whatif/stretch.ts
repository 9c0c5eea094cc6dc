/** Which part of the past. */
export type Stretch = "day" | "week" | "month" | "all" | "own";

export const STRETCHES: [Stretch, string][] = [
  ["day", "the last day"],
  ["week", "the last 7 days"],
  ["month", "the last 30 days"],
  ["all", "all of the log"],
  ["own", "from … to …"],
];

const DAYS: Partial<Record<Stretch, number>> = { day: 1, week: 7, month: 30 };

/** from and to for the server; null: from the first record on, or up to the newest. */
export interface Ends {
  from: string | null;
  to: string | null;
}

/**
 * The ends of a stretch that ends with the newest record, or with what somebody typed: seqs (`1200`) or times in UTC, as in
 * `2026-11-01` or `2026-11-01 12:30`.
 */
export function ends(stretch: Stretch, head: string | null, own: { from: string; to: string }): Ends | { fault: string } {
  if (stretch === "all") return { from: null, to: null };
  if (stretch !== "own") {
    const until = Date.parse(head ?? "");
    if (Number.isNaN(until)) return { fault: "The pool has no record yet." };
    return { from: rfc3339(until - DAYS[stretch]! * 86_400_000), to: null };
  }
  const from = moment(own.from);
  const to = moment(own.to);
  if (from === undefined || to === undefined) return { fault: `${from === undefined ? own.from : own.to} is neither a record's number nor a time, as in 2026-11-01 12:30 (UTC).` };
  if (from !== null && to !== null && isSeq(from) === isSeq(to) && (isSeq(from) ? Number(from) >= Number(to) : from >= to)) return { fault: "It ends before it begins." };
  return { from, to };
}

const isSeq = (text: string): boolean => /^\d+$/.test(text);

/** undefined: it is nothing of the kind. */
function moment(typed: string): string | null | undefined {
  const text = typed.trim();
  if (!text) return null;
  if (/^\d{1,15}$/.test(text)) return text;
  const match = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(:\d{2})?Z?)?$/.exec(text);
  if (!match) return undefined;
  const at = Date.parse(`${match[1]}T${match[2] ?? "00:00"}${match[3] ?? ":00"}Z`);
  return Number.isNaN(at) ? undefined : rfc3339(at);
}

const rfc3339 = (milliseconds: number): string => new Date(milliseconds).toISOString().replace(/\.\d+Z$/, "Z");
