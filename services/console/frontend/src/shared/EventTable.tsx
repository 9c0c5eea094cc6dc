import { useSignal } from "@preact/signals";

import { JobLink, DataTable, RelativeTime, SeqLink, type Column } from "../ui";
import type { EventItem } from "./eventGroups";
import "./events.css";

interface Line {
  item: EventItem;
  inside: boolean;
}

/** Records, newest first; the records of one eviction are a line that opens. jobs: with the job of each. */
export function EventTable({ pool, caption, empty, items, jobs = false }: { pool: string; caption: string; empty: string; items: readonly EventItem[]; jobs?: boolean }) {
  const open = useSignal<ReadonlySet<string>>(new Set());
  const toggle = (key: string): void => {
    const next = new Set(open.peek());
    if (!next.delete(key)) next.add(key);
    open.value = next;
  };
  const lines = items.flatMap((item): Line[] => [{ item, inside: false }, ...(item.rows && open.value.has(item.row.key) ? item.rows.map((row) => ({ item: { row }, inside: true })) : [])]);
  const job: Column<Line>[] = jobs ? [{ head: "Job", cell: ({ item }) => item.row.job && <JobLink pool={pool} job={item.row.job} /> }] : [];
  return (
    <div class="events">
      <DataTable
        caption={caption}
        empty={empty}
        rows={lines}
        rowKey={({ item, inside }) => `${inside} ${item.row.key}`}
        columns={[
          { head: "When", cell: ({ item }) => <RelativeTime at={item.row.time} /> },
          { head: "Record", cell: ({ item }) => <SeqLink pool={pool} seq={item.row.seq} /> },
          {
            head: "Event",
            cell: ({ item: { row, rows }, inside }) =>
              rows ? (
                <button type="button" class="link event-group" aria-expanded={open.value.has(row.key)} onClick={() => toggle(row.key)}>
                  {row.event}
                </button>
              ) : (
                <span class={inside ? "event-inside" : undefined}>{row.event}</span>
              ),
          },
          ...job,
          { head: "Details", line: true, cell: ({ item }) => <bdi class="clamped event-text" title={item.row.text}>{item.row.text}</bdi> },
        ]}
      />
    </div>
  );
}
