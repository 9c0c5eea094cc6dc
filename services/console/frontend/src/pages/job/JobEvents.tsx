import { useComputed, useSignal } from "@preact/signals";

import { archivePath, get, toApiError, type Eviction, type Page, type RecordItem } from "../../api";
import { sanitizeLine, summary, typeTitle } from "../../lib";
import type { LivePool } from "../../live";
import { groupByEviction } from "../../shared/eventGroups";
import { EventTable } from "../../shared/EventTable";
import { Button, Card } from "../../ui";
import { eventRows } from "./eventRows";

const SHOWN = 30;

interface Props {
  pool: string;
  job: string;
  live: LivePool;
  page: Page<RecordItem> | null;
  lines: string[];
  evictions: readonly Eviction[];
}

/** Events of the job, newest first, from the archive and the live stream; those of one eviction are one line. */
export function JobEvents({ pool, job, live, page, lines, evictions }: Props) {
  const older = useSignal<{ items: RecordItem[]; next: string | null } | null>(null);
  const failure = useSignal("");
  const shown = useSignal(SHOWN);
  const liveLines = useComputed(() => live.events.value.filter((line) => line.job === job));
  const rows = eventRows(liveLines.value, [...(page?.items ?? []), ...(older.value?.items ?? [])], lines);
  const items = groupByEviction(rows.map(({ key, seq, time, word, type, text, data }) => ({ key, seq, time, job, event: typeTitle(word || type), text: text ? sanitizeLine(text) : summary(data) })), evictions);
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
      <EventTable pool={pool} caption={`Events of ${job}, newest first`} items={items.slice(0, shown.value)} empty="No events since this page was opened. Earlier events are in the archive, which is unavailable." />
      {(next || items.length > shown.value) && (
        <div class="more">
          {items.length > shown.value ? (
            <Button onClick={() => (shown.value += 400)}>{items.length - shown.value} more</Button>
          ) : (
            <Button onClick={() => { shown.value += 400; void more(); }}>Older</Button>
          )}{" "}
          {failure.value && <span class="soft">{failure.value}</span>}
        </div>
      )}
    </Card>
  );
}
