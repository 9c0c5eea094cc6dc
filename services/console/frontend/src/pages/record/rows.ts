// Records as rows of the stream: from the live stream (told in words) and from the archive (as they are), one for each record.
import { isQuiet, summary, typeWords } from "../../lib/records";
import type { EventLine } from "../../live/shapes";
import type { RecordItem } from "../job/shapes";

export interface Filter {
  type: string;
  job: string;
  project: string;
  node: string;
  words: string;
  /** "1": with the records that hardly anybody asks for. */
  quiet: string;
}

export const NO_FILTER: Filter = { type: "", job: "", project: "", node: "", words: "", quiet: "" };
const NAMES = Object.keys(NO_FILTER) as (keyof Filter)[];

/** A filter as the page's address has it, and back. */
export function filterOf(query: Record<string, string>): Filter {
  return Object.fromEntries(NAMES.map((name) => [name, query[name === "words" ? "q" : name] ?? ""])) as unknown as Filter;
}

export function queryOf(filter: Filter): string {
  const found = NAMES.flatMap((name) => (filter[name] ? [`${name === "words" ? "q" : name}=${encodeURIComponent(filter[name])}`] : []));
  return found.join("&");
}

export function fromRecord(record: RecordItem): EventLine {
  const data = record.data ?? {};
  const asker = data.asker as { job?: string } | undefined;
  return {
    seq: record.seq, time: record.time, type: record.type, word: record.word ?? typeWords(record.type),
    job: record.job ?? (typeof data.job === "string" ? data.job : (asker?.job ?? null)), project: null,
    node: typeof data.node === "string" ? data.node : null, text: record.text ?? summary(data),
  };
}

/** All records once, the newest first; what the live stream tells in words comes before the archive's fields. */
export function merged(lines: EventLine[], records: RecordItem[], most: number): EventLine[] {
  const rows = new Map<number, EventLine>(records.map((record) => [record.seq, fromRecord(record)]));
  for (const line of lines) {
    const known = rows.get(line.seq);
    const again = known && known.word === line.word && known.job !== line.job; // one record, several jobs
    rows.set(line.seq, again ? { ...known, text: `${known.text}; ${line.job}: ${line.text}` } : { ...line, job: line.job ?? known?.job ?? null, node: line.node ?? known?.node ?? null });
  }
  return [...rows.values()].sort((left, right) => right.seq - left.seq).slice(0, most);
}

const has = (text: string | null, part: string): boolean => (text ?? "").toLowerCase().includes(part.trim().toLowerCase());

/** Every field that is filled must fit. project: of an archive's row it is not known here, the archive has judged it. */
export function matches(row: EventLine, filter: Filter): boolean {
  return (
    (filter.quiet !== "" || !isQuiet(row.type) || Boolean(filter.type || filter.words)) &&
    (!filter.type || has(row.word, filter.type) || has(row.type, filter.type) || has(typeWords(row.type), filter.type)) &&
    (!filter.job || has(row.job, filter.job) || has(row.text, filter.job)) &&
    (!filter.project || row.project === null || has(row.project, filter.project)) &&
    (!filter.node || has(row.node, filter.node) || has(row.text, filter.node)) &&
    filter.words.split(/\s+/).every((word) => !word || has(`#${row.seq} ${row.word} ${row.type} ${row.job ?? ""} ${row.node ?? ""} ${row.text}`, word))
  );
}

/** What of the filter the archive itself can judge, exactly: as parameters of `/records`. */
export function askedOf(filter: Filter): string {
  const exact = /^[A-Z][A-Za-z]+$/.test(filter.type.trim()) ? filter.type.trim() : "";
  return [["type", exact], ["project", filter.project.trim()]].flatMap(([name, value]) => (value ? [`&${name}=${encodeURIComponent(value)}`] : [])).join("");
}
