import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";

import { usePolling, type Overview, type QuotaSeries } from "../../api";
import { moment } from "../../lib";
import { livePoolOf, unlistedPending } from "../../live";
import { allocation, currentPoint, filled, loadOverview, usedLines } from "../../shared/poolUsage";
import { Card, DataTable, EmptyState, Loaded, SegmentedControl } from "../../ui";
import { Chart, type Series } from "../../ui/Chart";
import type { ChartWindow } from "../../shared/chartWindow";
import { loadQuotaSeries, pointsOf, usageLines, usageText, withCurrent, type UsagePoint } from "./usageSeries";

const POINTS = 120;
const rounded = (gpus: number): number => Math.round(gpus * 10) / 10;

interface Props {
  pool: string;
  /** The newest time of the log. */
  to: string | null;
  over: ChartWindow | null;
  /** The range's picker. */
  aside?: ComponentChildren;
}

/** A project's usage, quota and fair share over time. */
export function UsageHistory({ pool, project, to, over, aside }: Props & { project: string }) {
  const live = livePoolOf(pool);
  const row = live.projects.get(project);
  const loaded = usePolling<QuotaSeries>(over && `${pool} ${project} ${over.key}`, (signal) => loadQuotaSeries(pool, over!, POINTS, project, signal));
  return (
    <Card title="Usage over time" aside={aside}>
      <Loaded of={loaded} what="usage over time" retry={loaded.refresh}>
        {(found) => {
          const [series] = found.projects;
          const past = series ? pointsOf(found, series) : [];
          const items = row && to !== null && over?.end === null ? withCurrent(past, row, to) : past;
          return <ChartOrTable items={items} text={series ? usageText(series) : ""} series={usageLines(items)} until={over?.end ?? to} rest={[["Quota", (item) => (item.quota === null ? "unlimited" : rounded(item.quota))], ["Fair share", (item) => (item.fair_share === null ? "–" : rounded(item.fair_share))], ["Borrowed", (item) => rounded(item.borrowed ?? 0)], ["Past use", (item) => rounded(item.past_use ?? 0)]]} gpus={(item) => rounded(item.gpus)} />;
        }}
      </Loaded>
    </Card>
  );
}

/** What the pool used of its capacity over time, on average in each interval. */
export function PoolUsageHistory({ pool, to, over, aside }: Props) {
  const live = livePoolOf(pool);
  const loaded = usePolling<Overview>(over && `${pool} ${over.key}`, (signal) => loadOverview(pool, over!.from, over!.end, POINTS, signal));
  return (
    <Card title="Pool usage over time" aside={aside}>
      <Loaded of={loaded} what="usage over time" retry={loaded.refresh}>
        {(overview) => {
          const now = live.row.value && to !== null && over?.end === null && unlistedPending(live) === 0 ? [currentPoint(to, live.row.value, live.nodes.values(), live.jobs.values())] : [];
          const points = [...filled(overview), ...now];
          const used = allocation(points);
          return <ChartOrTable items={points} text={used === null ? "No GPUs." : `Used ${used} % of the capacity on average.`} series={usedLines(points)} until={now[0]?.time ?? overview.to} rest={[["Capacity", (point) => rounded(point.capacity)]]} gpus={(point) => rounded(point.gpus)} />;
        }}
      </Loaded>
    </Card>
  );
}

interface Shown<T> {
  items: readonly T[];
  text: string;
  series: Series[];
  until: string | null;
  gpus: (item: T) => number;
  rest: [string, (item: T) => string | number][];
}

function ChartOrTable<T extends Pick<UsagePoint, "time">>({ items, text, series, until, gpus, rest }: Shown<T>) {
  const showing = useSignal<"chart" | "table">("chart");
  if (!items.length || until === null) return <EmptyState title="No data for this time range">The archive knows of no use in this time range.</EmptyState>;
  return (
    <div class="stack usage-history">
      <div class="row usage-history-head">
        <p>{text}</p>
        <SegmentedControl legend="Show usage as" options={[["chart", "Chart"], ["table", "Table"]]} value={showing.value} onChange={(next) => (showing.value = next)} />
      </div>
      {showing.value === "chart" ? (
        <Chart times={items.map((item) => Date.parse(item.time))} until={Date.parse(until)} series={series} unit="GPUs" label={`GPUs used, over time. ${text} The table has the figures.`} />
      ) : (
        <DataTable
          caption="GPUs used over time"
          rows={[...items].reverse()}
          rowKey={(item) => item.time}
          columns={[{ head: "Time", cell: (item) => <span class="number">{moment(item.time)}</span> }, { head: "GPUs used", right: true, cell: gpus }, ...rest.map(([head, cell]) => ({ head, right: true, cell }))]}
        />
      )}
    </div>
  );
}
