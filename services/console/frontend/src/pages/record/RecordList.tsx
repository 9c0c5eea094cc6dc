import { useSignal } from "@preact/signals";

import type { Archive, EventLine, RecordItem } from "../../api";
import { count, moment, sanitizeLine, typeTitle } from "../../lib";
import type { LivePool } from "../../live";
import { Button, Card, EmptyState, FilterField, JobLink, Loading, RelativeTime } from "../../ui";
import { archiveQuery, matches, mergeRows, namesNode, NO_FILTER, type Filter } from "./recordRows";
import { useRecords } from "./useRecords";

const INITIAL_ROWS = 50;
const MAX_ROWS = 20_000;

interface Props {
  pool: string;
  live: LivePool;
  archive: Archive;
  filter: Filter;
  setFilter: (filter: Filter) => void;
  openRecord: (seq: number) => void;
}

/** The records of the log, newest first, updated live, with filters. */
export function RecordList({ pool, live, archive, filter, setFilter, openRecord }: Props) {
  const frozen = useSignal<{ lines: EventLine[]; items: RecordItem[] } | null>(null);
  const visible = useSignal(INITIAL_ROWS);
  const records = useRecords(pool, archiveQuery(filter), archive, live, frozen.value !== null);
  const lines = frozen.value?.lines ?? live.events.value;
  const rows = mergeRows(lines, records.items, MAX_ROWS).filter((row) => matches(row, filter));
  const kinds = [...new Set(rows.map((row) => row.event))].sort();
  const isFiltering = Object.values(filter).some(Boolean);
  const field = (name: keyof Filter, label: string, list?: string) => (
    <FilterField label={label}>
      <input class="input" type="search" value={filter[name]} list={list} onInput={(event) => setFilter({ ...filter, [name]: event.currentTarget.value })} />
    </FilterField>
  );
  const aside = <Button onClick={() => (frozen.value = frozen.value ? null : { lines: live.events.peek(), items: records.items })}>{frozen.value ? "Resume" : "Pause"}</Button>;
  return (
    <Card title="Records" aside={aside}>
      <form class="row record-filter" role="search" onSubmit={(event) => event.preventDefault()}>
        {field("search", "Search")}
        {field("type", "Type", "kinds")}
        {field("job", "Job")}
        {field("project", "Project")}
        {field("node", "Node")}
        <label class="record-internal">
          <input type="checkbox" checked={filter.showInternal !== ""} onChange={(event) => setFilter({ ...filter, showInternal: event.currentTarget.checked ? "1" : "" })} /> Show internal records (clock, proposals, progress)
        </label>
        <datalist id="kinds">{kinds.map((kind) => <option key={kind} value={kind} />)}</datalist>
        {isFiltering && <Button onClick={() => setFilter(NO_FILTER)}>Clear</Button>}
      </form>
      {records.loading && archive.state !== "none" ? (
        <Loading what="the records" />
      ) : rows.length > 0 ? (
        <ul class="record-list">
          {rows.slice(0, visible.value).map((row) => <RecordRow key={row.seq} pool={pool} row={row} openRecord={openRecord} />)}
        </ul>
      ) : (
        <EmptyState title={isFiltering ? "No records match the filter" : "No records yet"}>
          {isFiltering ? "Load older records, or clear the filter." : "Records appear here as they are written."}
        </EmptyState>
      )}
      <div class="row more record-more">
        {!records.loading && rows.length > visible.value && <Button onClick={() => (visible.value += 1_000)}>{count(rows.length - visible.value, "more record")}</Button>}
        {archive.state === "there" && records.more && records.items.length > 0 && <Button onClick={() => { visible.value += INITIAL_ROWS; records.loadOlder(); }}>Older records</Button>}
        {archive.state === "there" && !records.more && <span class="soft">Beginning of the log.</span>}
        {archive.state === "none" && <span class="soft">Older and internal records are in the archive, and none is configured.</span>}
        {records.failure && <span class="bad" role="alert">Older records are unavailable: {records.failure.message}</span>}
      </div>
    </Card>
  );
}

function RecordRow({ pool, row, openRecord }: { pool: string; row: EventLine; openRecord: (seq: number) => void }) {
  return (
    <li class="record-row">
      <button type="button" class="link number record-seq" onClick={() => openRecord(row.seq)} title="Open record">#{row.seq}</button>
      <span class="record-time number" title={moment(row.time)}><RelativeTime at={row.time} /></span>
      <span class="record-event">{typeTitle(row.event)}</span>
      <span class="clamped record-message" title={row.message}>
        {row.job && <JobLink pool={pool} job={row.job} />} {row.node && !namesNode(row) && <span class="mono">{row.node}</span>} <bdi>{sanitizeLine(row.message)}</bdi>
      </span>
    </li>
  );
}
