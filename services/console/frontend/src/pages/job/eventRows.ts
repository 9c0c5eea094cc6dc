// Events of a job from the live stream, the archive and the job's details, merged: one row per record.
import type { EventLine, RecordItem } from "../../api";
import { capital } from "../../lib";

interface EventRow {
  key: string;
  seq: number;
  time: string;
  type: string;
  word: string;
  text: string;
  data: Record<string, unknown> | null;
}

const LINE = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) \S*#(\d+)(\s+)(.*)$/;
const NO_WORD = 20; // width of the event column

/** Newest first. lines: `2026-01-31 12:04:31 pool-a#118 job placed  …`; a record about several jobs has several. */
export function eventRows(liveLines: EventLine[], records: RecordItem[], lines: string[]): EventRow[] {
  const rows = new Map<number, EventRow>();
  for (const line of lines) {
    const [, day, clock, number, gap, content] = LINE.exec(line) ?? [];
    if (content === undefined) continue;
    const [what, ...rest] = gap!.length > NO_WORD ? ["", content] : content.split(/ {2,}/);
    const [seq, text] = [Number(number), rest.join(" ").replace(/ {2,}/g, " ")];
    const before = rows.get(seq);
    rows.set(seq, before ? { ...before, text: `${before.text}; ${text || what!}` } : { key: number!, seq, time: `${day}T${clock}Z`, type: "", word: capital(what!), text, data: null });
  }
  for (const record of records) {
    const line = rows.get(record.seq);
    rows.set(record.seq, { key: String(record.seq), seq: record.seq, time: record.time, type: record.type, word: line?.word ?? record.event ?? "", text: line?.text ?? record.message ?? "", data: record.data });
  }
  for (const line of liveLines) {
    const before = rows.get(line.seq);
    rows.set(line.seq, { key: String(line.seq), seq: line.seq, time: line.time, type: line.type, word: line.event, text: line.message, data: before?.data ?? null });
  }
  return [...rows.values()].sort((left, right) => right.seq - left.seq);
}
