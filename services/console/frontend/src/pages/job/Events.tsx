import { useComputed, useSignal } from "@preact/signals";

import { archivePath, asRefusal, get, type Page } from "../../lib/api";
import { plainLine } from "../../lib/plain";
import { summary, typeWords } from "../../lib/records";
import type { Live } from "../../live/live";
import { Ago } from "../../ui/Ago";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { DataTable } from "../../ui/DataTable";
import { SeqLink } from "../../ui/Links";
import { eventRows } from "./events";
import type { RecordItem } from "./shapes";

const SHOWN = 30;

interface Props {
  pool: string;
  job: string;
  live: Live;
  page: Page<RecordItem> | null;
  lines: string[];
}

/** What happened to the job, the newest first: the archive's records, and what is live beyond them. */
export function Events({ pool, job, live, page, lines }: Props) {
  const older = useSignal<{ items: RecordItem[]; next: string | null } | null>(null);
  const failure = useSignal("");
  const shown = useSignal(SHOWN);
  const told = useComputed(() => live.events.value.filter((line) => line.job === job));
  const rows = eventRows(told.value, [...(page?.items ?? []), ...(older.value?.items ?? [])], lines);
  const next = older.value ? older.value.next : (page?.next ?? null);
  const more = async (): Promise<void> => {
    try {
      const found = await get<Page<RecordItem>>(archivePath(pool, `jobs/${encodeURIComponent(job)}/timeline?limit=200&cursor=${encodeURIComponent(next!)}`));
      older.value = { items: [...(older.value?.items ?? []), ...found.items], next: found.next };
    } catch (error) {
      failure.value = asRefusal(error).message;
    }
  };
  return (
    <Card title="What happened">
      {rows.length ? (
        <div class="events">
          <DataTable
            caption={`What happened to ${job}, the newest first`}
            rows={rows.slice(0, shown.value)}
            rowKey={(row) => row.key}
            columns={[
              { head: "When", cell: (row) => <Ago at={row.time} /> },
              { head: "Record", cell: (row) => <SeqLink pool={pool} seq={row.seq} /> },
              { head: "What", cell: (row) => (row.word ? row.word : typeWords(row.type)) },
              { head: "More", cell: (row) => <Text text={row.text ? plainLine(row.text) : summary(row.data)} /> },
            ]}
          />
        </div>
      ) : (
        <p class="soft">Nothing since this page was opened. Earlier events come from the archive, which cannot be asked.</p>
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
