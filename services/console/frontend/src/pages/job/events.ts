// What happened to a job, from the live stream, the archive and the live fold: one row for each record.
import { capital } from "../../lib/words";
import type { EventLine } from "../../live/shapes";
import type { RecordItem } from "./shapes";

export interface EventRow {
  key: string;
  seq: number;
  time: string;
  type: string;
  word: string;
  text: string;
  data: Record<string, unknown> | null;
}

const LINE = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) \S*#(\d+)(\s+)(.*)$/;
const NO_WORD = 20; // so wide is the column of what happened

/** The newest first. lines: `2026-01-31 12:04:31 pool-a#118 job placed  …`, several for one record where it tells of several. */
export function eventRows(told: EventLine[], records: RecordItem[], lines: string[]): EventRow[] {
  const rows = new Map<number, EventRow>();
  for (const line of lines) {
    const [, day, clock, number, gap, said] = LINE.exec(line) ?? [];
    if (said === undefined) continue;
    const [what, ...rest] = gap!.length > NO_WORD ? ["", said] : said.split(/ {2,}/);
    const [seq, text] = [Number(number), rest.join(" ").replace(/ {2,}/g, " ")];
    const before = rows.get(seq);
    rows.set(seq, before ? { ...before, text: `${before.text}; ${text || what!}` } : { key: number!, seq, time: `${day}T${clock}Z`, type: "", word: capital(what!), text, data: null });
  }
  for (const record of records) {
    const line = rows.get(record.seq);
    rows.set(record.seq, { key: String(record.seq), seq: record.seq, time: record.time, type: record.type, word: line?.word ?? record.word ?? "", text: line?.text ?? record.text ?? "", data: record.data });
  }
  for (const line of told) {
    const before = rows.get(line.seq);
    rows.set(line.seq, { key: String(line.seq), seq: line.seq, time: line.time, type: line.type, word: line.word, text: line.text, data: before?.data ?? null });
  }
  return [...rows.values()].sort((left, right) => right.seq - left.seq);
}
