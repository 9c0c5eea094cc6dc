import { useComputed, useSignal } from "@preact/signals";

import { archivePath, toApiError, get, type Page } from "../../lib/api";
import { sanitizeLine } from "../../lib/sanitizeLine";
import { summary, typeTitle } from "../../lib/recordText";
import type { LivePool } from "../../live/livePool";
import { RelativeTime } from "../../ui/RelativeTime";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { DataTable } from "../../ui/DataTable";
import { SeqLink } from "../../ui/Links";
import { eventRows } from "./eventRows";
import type { RecordItem } from "./types";

const SHOWN = 30;

interface Props {
  pool: string;
  job: string;
  live: LivePool;
  page: Page<RecordItem> | null;
  lines: string[];
}

/** Events of the job, newest first: from the archive and the live stream. */
export function JobEvents({ pool, job, live, page, lines }: Props) {
  const older = useSignal<{ items: RecordItem[]; next: string | null } | null>(null);
  const failure = useSignal("");
  const shown = useSignal(SHOWN);
  const liveLines = useComputed(() => live.events.value.filter((line) => line.job === job));
  const rows = eventRows(liveLines.value, [...(page?.items ?? []), ...(older.value?.items ?? [])], lines);
  const next = older.value ? older.value.next : (page?.next ?? null);
  const more = async (): Promise<void> => {
    try {
      const found = await get<Page<RecordItem>>(archivePath(pool, `jobs/${encodeURIComponent(job)}/timeline?limit=200&cursor=${encodeURIComponent(next!)}`));
      older.value = { items: [...(older.value?.items ?? []), ...found.items], next: found.next };
    } catch (error) {
      failure.value = toApiError(error).message;
    }
  };
  return (
    <Card title="Events">
      {rows.length ? (
        <div class="events">
          <DataTable
            caption={`Events of ${job}, newest first`}
            rows={rows.slice(0, shown.value)}
            rowKey={(row) => row.key}
            columns={[
              { head: "When", cell: (row) => <RelativeTime at={row.time} /> },
              { head: "Record", cell: (row) => <SeqLink pool={pool} seq={row.seq} /> },
              { head: "Event", cell: (row) => typeTitle(row.word || row.type) },
              { head: "Details", cell: (row) => <Text text={row.text ? sanitizeLine(row.text) : summary(row.data)} /> },
            ]}
          />
        </div>
      ) : (
        <p class="soft">No events since this page was opened. Earlier events are in the archive, which is unavailable.</p>
      )}
      {(next || rows.length > shown.value) && (
        <div class="more">
          {rows.length > shown.value ? (
            <Button onClick={() => (shown.value += 400)}>{rows.length - shown.value} more</Button>
          ) : (
            <Button onClick={() => { shown.value += 400; void more(); }}>Older</Button>
          )}{" "}
          {failure.value && <span class="soft">{failure.value}</span>}
        </div>
      )}
    </Card>
  );
}

const Text = ({ text }: { text: string }) => (
  <span class="event-text" title={text}>
    {text}
  </span>
);
