import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";

import { usePolling } from "../../lib/usePolling";
import { moment } from "../../lib/format";
import { livePoolOf } from "../../live/livePool";
import { Card } from "../../ui/Card";
import { DataTable } from "../../ui/DataTable";
import { EmptyState } from "../../ui/EmptyState";
import { ErrorMessage } from "../../ui/ErrorMessage";
import { Loading } from "../../ui/Loading";
import { SegmentedControl } from "../../ui/SegmentedControl";
import type { ChartWindow } from "./chartWindow";
import { axisOf, loadUsage, schedulableGpus, usageText, withCurrent, type UsageItem } from "./usageSeries";
import { UsageChart } from "./UsageChart";

/** Usage, quota and fair share over time. project "": the whole pool. to: the newest time of the log. aside: the range's picker. */
export function UsageHistory({ pool, project, to, over, aside }: { pool: string; project: string; to: string | null; over: ChartWindow | null; aside?: ComponentChildren }) {
  const showing = useSignal<"chart" | "table">("chart");
  const pointed = useSignal<UsageItem | null>(null);
  const live = livePoolOf(pool);
  const row = project === "" ? live.row.value : null;
  const { value: sampled, failure, refresh } = usePolling(over && `${pool} ${project} ${over.key}`, (signal) => loadUsage(pool, project, over!.from, over!.end, signal));
  const items = sampled && row && to !== null && over?.end === null ? withCurrent(sampled, row, schedulableGpus(live.nodes.values()), to) : sampled;
  return (
    <Card title={project === "" ? "Pool usage over time" : "Usage over time"} aside={aside}>
      {failure && !items ? (
        <ErrorMessage error={failure} retry={refresh} />
      ) : over && !items ? (
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
              <UsageChart items={items} axis={axisOf(items, over!.from, over!.end ?? to!)} words={`GPUs used, over time. ${usageText(items)} The table has the figures.`} onAt={(item) => (pointed.value = item)} />
              <ul class="chart-legend">
                <li data-line="used">used</li>
                {project === "" && <li data-line="fair">schedulable</li>}
                {project !== "" && (
                  <>
                    <li data-line="quota">quota</li>
                    <li data-line="fair">fair share</li>
                    <li data-line="borrowed">borrowed</li>
                  </>
                )}
                <li class="chart-at soft number">{pointed.value ? atText(pointed.value) : "GPUs"}</li>
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
  if (item.project === "") return `${used} of ${item.fair_share} schedulable`;
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
        { head: items[0]?.project === "" ? "Schedulable" : "Fair share", right: true, cell: (item) => Math.round(item.fair_share * 10) / 10 },
        { head: "Borrowed", right: true, cell: (item) => item.borrowed ?? 0 },
      ]}
    />
  );
}
