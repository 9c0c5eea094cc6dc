// Rows of the record list, merged from the live stream and the archive: one per record.
import { archivePath, type EventLine, type RecordItem } from "../../api";
import { isQuiet, summary, typeTitle } from "../../lib";

export interface Filter {
  type: string;
  job: string;
  project: string;
  node: string;
  search: string;
  /** "1": include internal records. */
  showInternal: string;
}

export const NO_FILTER: Filter = { type: "", job: "", project: "", node: "", search: "", showInternal: "" };
const NAMES = Object.keys(NO_FILTER) as (keyof Filter)[];

/** The filter from the URL query, and back. */
export function filterOf(query: Record<string, string>): Filter {
  return Object.fromEntries(NAMES.map((name) => [name, query[name === "search" ? "q" : name] ?? ""])) as unknown as Filter;
}

export function queryOf(filter: Filter): string {
  const found = NAMES.flatMap((name) => (filter[name] ? [`${name === "search" ? "q" : name}=${encodeURIComponent(filter[name])}`] : []));
  return found.join("&");
}

export function fromRecord(record: RecordItem): EventLine {
  const data = record.data ?? {};
  const preemptor = data.preemptor as { job?: string } | undefined;
  return {
    seq: record.seq, time: record.time, type: record.type, event: record.event ?? typeTitle(record.type),
    job: record.job ?? (typeof data.job === "string" ? data.job : (preemptor?.job ?? null)), project: null,
    node: typeof data.node === "string" ? data.node : null, message: record.message ?? summary(data),
  };
}

/** All records once, newest first; texts of the live stream have precedence. */
export function mergeRows(lines: EventLine[], records: RecordItem[], most: number): EventLine[] {
  const rows = new Map<number, EventLine>(records.map((record) => [record.seq, fromRecord(record)]));
  for (const line of lines) {
    const known = rows.get(line.seq);
    const sameEvent = known && known.event === line.event && known.job !== line.job; // one record, several jobs
    rows.set(line.seq, sameEvent ? { ...known, message: `${known.message}; ${line.job}: ${line.message}` } : { ...line, job: line.job ?? known?.job ?? null, node: line.node ?? known?.node ?? null });
  }
  return [...rows.values()].sort((left, right) => right.seq - left.seq).slice(0, most);
}

const contains = (text: string | null, part: string): boolean => (text ?? "").toLowerCase().includes(part.trim().toLowerCase());

/** Whether a row matches every filter field. The archive has already filtered its rows by project. */
export function matches(row: EventLine, filter: Filter): boolean {
  return (
    (filter.showInternal !== "" || !isQuiet(row.type) || Boolean(filter.type || filter.search)) &&
    (!filter.type || contains(row.event, filter.type) || contains(row.type, filter.type) || contains(typeTitle(row.type), filter.type)) &&
    (!filter.job || contains(row.job, filter.job) || contains(row.message, filter.job)) &&
    (!filter.project || row.project === null || contains(row.project, filter.project)) &&
    (!filter.node || contains(row.node, filter.node) || contains(row.message, filter.node)) &&
    filter.search.split(/\s+/).every((word) => !word || contains(`#${row.seq} ${row.event} ${row.type} ${row.job ?? ""} ${row.node ?? ""} ${row.message}`, word))
  );
}

/** The part of the filter that the archive evaluates, as query parameters of `/records`. */
export function archiveQuery(filter: Filter): string {
  const exact = /^[A-Z][A-Za-z]+$/.test(filter.type.trim()) ? filter.type.trim() : "";
  return [["type", exact], ["project", filter.project.trim()]].flatMap(([name, value]) => (value ? [`&${name}=${encodeURIComponent(value)}`] : [])).join("");
}

/** part: which records of the log; filter: `archiveQuery`. */
export const recordsPath = (pool: string, part: string, filter: string): string => archivePath(pool, `records?${part}${filter}`);

/** Whether the text of the record says already on which node. */
export const namesNode = ({ node, message }: EventLine): boolean => !!node && message.split(/[^\w.-]+/).includes(node);
