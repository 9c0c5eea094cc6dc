import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";

import { usePolling } from "../../api";
import { moment } from "../../lib";
import { livePoolOf } from "../../live";
import { schedulableGpus } from "../../shared/nodes";
import { Card, DataTable, EmptyState, ErrorMessage, Loading, SegmentedControl } from "../../ui";
import { Chart } from "../../ui/Chart";
import type { ChartWindow } from "./chartWindow";
import { loadUsage, usageLines, usageText, withCurrent, type UsagePoint } from "./usageSeries";

/** Usage, quota and fair share over time. project "": the whole pool. to: the newest time of the log. aside: the range's picker. */
export function UsageHistory({ pool, project, to, over, aside }: { pool: string; project: string; to: string | null; over: ChartWindow | null; aside?: ComponentChildren }) {
  const showing = useSignal<"chart" | "table">("chart");
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
        <div class="stack usage-history">
          <div class="row usage-history-head">
            <p>{usageText(items)}</p>
            <SegmentedControl legend="Show usage as" options={[["chart", "Chart"], ["table", "Table"]]} value={showing.value} onChange={(next) => (showing.value = next)} />
          </div>
          {showing.value === "chart" ? (
            <Chart times={items.map((item) => Date.parse(item.time))} until={Date.parse(over!.end ?? to!)} series={usageLines(items)} unit="GPUs" label={`GPUs used, over time. ${usageText(items)} The table has the figures.`} />
          ) : (
            <UsageTable items={items} />
          )}
        </div>
      )}
    </Card>
  );
}

function UsageTable({ items }: { items: readonly UsagePoint[] }) {
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
