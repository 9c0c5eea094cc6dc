// What happened to a job, from the live stream, the archive and the live fold: one row for each record.
import type { EventLine } from "../../live/shapes";
import type { RecordItem } from "./shapes";

export interface EventRow {
  key: string;
  seq: number | null;
  time: string | null;
  type: string;
  word: string;
  text: string;
  data: Record<string, unknown> | null;
}

/** The newest first. lines: `12:04:31 pool-a#118 job placed  …`, used where nothing else tells of that record. */
export function eventRows(told: EventLine[], records: RecordItem[], lines: string[]): EventRow[] {
  const rows = new Map<number, EventRow>();
  for (const line of lines) {
    const found = /^(\d\d:\d\d:\d\d) \S*#(\d+)\s+(.*)$/.exec(line);
    if (found) {
      const [what, ...rest] = found[3]!.split(/ {2,}/);
      const seq = Number(found[2]);
      const before = rows.get(seq);
      const text = rest.join("  ");
      rows.set(seq, before ? { ...before, text: `${before.text}; ${text || what!}` } : { key: String(seq), seq, time: null, type: "", word: capital(what!), text, data: null });
    }
  }
  for (const record of records) {
    const line = rows.get(record.seq);
    rows.set(record.seq, { key: String(record.seq), seq: record.seq, time: record.time, type: record.type, word: line?.word ?? "", text: line?.text ?? "", data: record.data });
  }
  for (const line of told) {
    const before = rows.get(line.seq);
    rows.set(line.seq, { key: String(line.seq), seq: line.seq, time: line.time, type: line.type, word: line.word, text: line.text, data: before?.data ?? null });
  }
  return [...rows.values()].sort((left, right) => right.seq! - left.seq!);
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
