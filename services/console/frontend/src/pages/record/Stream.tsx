import { useSignal } from "@preact/signals";

import type { Archive } from "../../lib/archive";
import { plainLine } from "../../lib/plain";
import { count, moment } from "../../lib/words";
import type { Live } from "../../live/live";
import type { EventLine } from "../../live/shapes";
import { Ago } from "../../ui/Ago";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { Empty } from "../../ui/Empty";
import { JobLink } from "../../ui/Links";
import { Loading } from "../../ui/Loading";
import type { RecordItem } from "../job/shapes";
import { askedOf, type Filter, matches, merged, NO_FILTER } from "./rows";
import { useRecords } from "./useRecords";

const SHOWN = 100;
const MOST = 20_000;

interface Props {
  pool: string;
  live: Live;
  archive: Archive;
  filter: Filter;
  set: (filter: Filter) => void;
  open: (seq: number) => void;
}

/** What happens, as it happens, and everything before it. */
export function Stream({ pool, live, archive, filter, set, open }: Props) {
  const held = useSignal<{ lines: EventLine[]; items: RecordItem[] } | null>(null);
  const many = useSignal(SHOWN);
  const records = useRecords(pool, askedOf(filter), archive, live, held.value !== null);
  const lines = held.value?.lines ?? live.events.value;
  const rows = merged(lines, records.items, MOST).filter((row) => matches(row, filter));
  const kinds = [...new Set(rows.map((row) => row.word))].sort();
  const isFiltered = Object.values(filter).some(Boolean);
  const field = (name: keyof Filter, label: string, list?: string) => (
    <label class="stream-field">
      <span>{label}</span>
      <input class="input" type="search" value={filter[name]} list={list} onInput={(event) => set({ ...filter, [name]: event.currentTarget.value })} />
    </label>
  );
  const aside = <Button onClick={() => (held.value = held.value ? null : { lines: live.events.peek(), items: records.items })}>{held.value ? "Go on" : "Pause"}</Button>;
  return (
    <Card title="Records" aside={aside}>
      <form class="stream-filter" role="search" onSubmit={(event) => event.preventDefault()}>
        {field("words", "Search")}
        {field("type", "What", "kinds")}
        {field("job", "Job")}
        {field("project", "Project")}
        {field("node", "Node")}
        <label class="stream-quiet">
          <input type="checkbox" checked={filter.quiet !== ""} onChange={(event) => set({ ...filter, quiet: event.currentTarget.checked ? "1" : "" })} /> with the quiet ones (clock, proposals, progress)
        </label>
        <datalist id="kinds">{kinds.map((kind) => <option key={kind} value={kind} />)}</datalist>
        {isFiltered && <Button onClick={() => set(NO_FILTER)}>Clear</Button>}
      </form>
      {rows.length > 0 ? (
        <ul class="stream">
          {rows.slice(0, many.value).map((row) => <Line key={row.seq} pool={pool} row={row} open={open} />)}
        </ul>
      ) : records.loading && archive.state !== "none" ? (
        <Loading what="the records" />
      ) : (
        <Empty title={isFiltered ? "No record here fits" : "Nothing has happened yet"}>
          {isFiltered ? "Older ones may: look further back, or clear the filter." : "Records appear here as they are written."}
        </Empty>
      )}
      <div class="more stream-more">
        {rows.length > many.value && <Button onClick={() => (many.value += 1_000)}>{count(rows.length - many.value, "more record")}</Button>}
        {archive.state === "there" && records.more && records.items.length > 0 && <Button onClick={() => { many.value += SHOWN; records.older(); }}>Older records</Button>}
        {archive.state === "there" && !records.more && <span class="soft">The log begins here.</span>}
        {archive.state === "none" && <span class="soft">Older records and those that tell no story are in the archive, and this console has none to ask.</span>}
        {records.failure && <span class="bad" role="alert">Older records cannot be shown now: {records.failure.detail || records.failure.title}</span>}
      </div>
    </Card>
  );
}

function Line({ pool, row, open }: { pool: string; row: EventLine; open: (seq: number) => void }) {
  return (
    <li class="stream-row">
      <button type="button" class="stream-seq number" onClick={() => open(row.seq)} title="Open this record">#{row.seq}</button>
      <span class="stream-time number" title={moment(row.time)}><Ago at={row.time} /></span>
      <span class="stream-word">{row.word}</span>
      <span class="stream-text" title={row.text}>
        {row.job && <JobLink pool={pool} job={row.job} />} {row.node && <span class="mono">{row.node}</span>} <bdi>{plainLine(row.text)}</bdi>
      </span>
    </li>
  );
}
