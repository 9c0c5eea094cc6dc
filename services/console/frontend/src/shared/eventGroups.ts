// Records of one eviction as one group, so that a list of records shows what happened.
import type { Eviction } from "../api";
import { capital, count, endText, evictionCauseText, stopWord } from "../lib";

export interface EventRow {
  key: string;
  seq: number;
  time: string;
  job: string | null;
  event: string;
  text: string;
}

/** A row of its own, or the records of one eviction. */
export type EventItem = { row: EventRow; rows?: undefined } | { row: EventRow; rows: EventRow[] };

const FEWEST = 2;
const UNFINISHED = Infinity;

/** rows: newest first. A group stands where its newest record does, with that record's time. */
export function groupByEviction(rows: readonly EventRow[], evictions: readonly Eviction[]): EventItem[] {
  const groups = new Map<Eviction, EventRow[]>();
  const spans = evictions.map((eviction) => ({ eviction, end: endOf(eviction) }));
  const groupOf = (row: EventRow): Eviction | undefined =>
    spans.find(({ eviction, end }) => row.seq >= eviction.decided_seq && Date.parse(row.time) <= end && (row.job === null || row.job === eviction.job || row.seq === eviction.decided_seq))?.eviction;
  const found: EventItem[] = [];
  for (const row of rows) {
    const eviction = groupOf(row);
    const group = eviction && groups.get(eviction);
    if (group) group.push(row);
    else if (eviction) {
      const own = [row];
      groups.set(eviction, own);
      found.push({ row: groupRow(eviction, row), rows: own });
    } else found.push({ row });
  }
  return found.map((item) => {
    if (!item.rows) return item;
    return item.rows.length < FEWEST ? { row: item.rows[0]! } : { rows: item.rows, row: { ...item.row, text: `${item.row.text}${item.row.text && ": "}${count(item.rows.length, "record")}` } };
  });
}

/** The last time of its stages before it resumed, in ms. */
function endOf({ stages }: Eviction): number {
  const done = ["released", "ended", "cancelled"].flatMap((name) => (stages[name] ? [Date.parse(stages[name])] : []));
  return done.length ? Math.max(...done) : UNFINISHED;
}

const groupRow = (eviction: Eviction, newest: EventRow): EventRow => ({
  ...newest,
  key: `eviction ${eviction.decided_seq} ${eviction.job}`,
  seq: eviction.decided_seq,
  job: eviction.job,
  event: eviction.tasks ? `Shrunk, tasks ${eviction.tasks}` : capital(stopWord(eviction.cause)),
  text: [eviction.for_job ? `for ${eviction.for_job}` : evictionCauseText(eviction.cause ?? ""), endText(eviction.outcome ?? "")].filter(Boolean).join(", "),
});
