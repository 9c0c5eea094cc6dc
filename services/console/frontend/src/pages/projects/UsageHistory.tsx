import { useSignal } from "@preact/signals";

import { usePolling } from "../../lib/usePolling";
import { moment } from "../../lib/format";
import { livePoolOf } from "../../live/livePool";
import { Card } from "../../ui/Card";
import { DataTable } from "../../ui/DataTable";
import { EmptyState } from "../../ui/EmptyState";
import { ErrorMessage } from "../../ui/ErrorMessage";
import { Loading } from "../../ui/Loading";
import { SegmentedControl } from "../../ui/SegmentedControl";
import { axisOf, RANGES, rangeStart, loadUsage, usageText, withCurrent, type Range, type UsageItem } from "./usageSeries";
import { UsageChart } from "./UsageChart";

/** Usage, quota and fair share over time. project "": the whole pool. to: the newest time of the log. */
export function UsageHistory({ pool, project, to }: { pool: string; project: string; to: string | null }) {
  const range = useSignal<Range>("6h");
  const showing = useSignal<"chart" | "table">("chart");
  const over = useSignal<UsageItem | null>(null);
  const row = project === "" ? livePoolOf(pool).row.value : null;
  const { value: sampled, failure, refresh } = usePolling(to === null ? null : `${pool} ${project} ${range.value}`, (signal) => loadUsage(pool, project, rangeStart(to!, range.value), signal));
  const items = sampled && row && to !== null ? withCurrent(sampled, row, to) : sampled;
  return (
    <Card title={project === "" ? "Pool usage over time" : "Usage over time"} aside={<SegmentedControl legend="Time range" options={RANGES} value={range.value} onChange={(next) => (range.value = next)} />}>
      {failure && !items ? (
        <ErrorMessage error={failure} retry={refresh} />
      ) : to !== null && !items ? (
        <Loading what="usage over time" />
      ) : !items?.length ? (
        <EmptyState title="No data for this time range">The archive records usage about once a minute while it follows the log.</EmptyState>
      ) : (
        <div class="usage-history">
          <div class="usage-history-head">
            <p>{usageText(items)}</p>
            <SegmentedControl legend="Show usage as" options={[["chart", "Chart"], ["table", "Table"]]} value={showing.value} onChange={(next) => (showing.value = next)} />
          </div>
          {showing.value === "chart" ? (
            <>
              <UsageChart items={items} axis={axisOf(items, rangeStart(to!, range.value), to!)} words={`GPUs used, over time. ${usageText(items)} The table has the figures.`} onAt={(item) => (over.value = item)} />
              <ul class="chart-legend">
                <li data-line="used">used</li>
                {project === "" && <li data-line="fair">capacity</li>}
                {project !== "" && (
                  <>
                    <li data-line="quota">quota</li>
                    <li data-line="fair">fair share</li>
                    <li data-line="borrowed">borrowed</li>
                  </>
                )}
                <li class="chart-at soft number">{over.value ? atText(over.value) : "GPUs"}</li>
              </ul>
            </>
          ) : (
            <UsageTable items={items} />
          )}
        </div>
      )}
    </Card>
  );
}

function atText(item: UsageItem): string {
  const used = `${moment(item.time)}: ${item.gpus} used`;
  if (item.project === "") return `${used} of ${item.fair_share}`;
  return `${used}, quota ${item.quota ?? "none"}, fair share ${Math.round(item.fair_share * 10) / 10}${item.borrowed ? `, ${item.borrowed} borrowed` : ""}`;
}

function UsageTable({ items }: { items: readonly UsageItem[] }) {
  return (
    <DataTable
      caption="GPUs used over time"
      rows={[...items].reverse()}
      rowKey={(item) => item.seq}
      columns={[
        { head: "Time", cell: (item) => <span class="number">{moment(item.time)}</span> },
        { head: "GPUs used", right: true, cell: (item) => item.gpus },
        { head: "Quota", right: true, cell: (item) => item.quota ?? "unlimited" },
        { head: items[0]?.project === "" ? "Capacity" : "Fair share", right: true, cell: (item) => Math.round(item.fair_share * 10) / 10 },
        { head: "Borrowed", right: true, cell: (item) => item.borrowed ?? 0 },
      ]}
    />
  );
}
