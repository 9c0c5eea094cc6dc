import { useLocation } from "preact-iso";

import { get, useArchive, usePolling, type Accounting } from "../../api";
import { download, moment, momentOfChart, now, usePageTitle } from "../../lib";
import { Button, Card, EmptyState, Loaded, SegmentedControl, TimeRangePicker } from "../../ui";
import { Chart } from "../../ui/Chart";
import { hours, percent, reportPath } from "../../shared/gpuHours";
import { accountingPath, chartLines, chartOf, csvOf, FIGURES, KEYS, knownPart, monthOf, named, RANGES, viewOf, viewPath, windowOf, type TimeWindow, type View } from "./accountingData";
import { AccountingTable } from "./AccountingTable";
import { MonthlyReport } from "./MonthlyReport";
import "./accounting.css";

/** GPU-hours over time; with `project` and `month` in the address, the report of a month. */
export default function AccountingPage({ pool }: { pool: string }) {
  const { query } = useLocation();
  const { state } = useArchive();
  usePageTitle(`${pool}: ${query.project !== undefined ? `report of ${query.project}` : "accounting"}`);
  if (state === "none") return <EmptyState title="Accounting is unavailable">It needs the archive, and none is configured.</EmptyState>;
  if (query.project !== undefined) return <MonthlyReport key={query.project} pool={pool} project={query.project} month={monthOf(query.month, now.peek())} />;
  return <Overview pool={pool} view={viewOf(query)} />;
}

function Overview({ pool, view }: { pool: string; view: View }) {
  const { route } = useLocation();
  const go = (changed: Partial<View>): void => route(viewPath(pool, { ...view, ...changed }));
  const limits = windowOf(view, now.peek());
  const key = `${pool} ${view.by} ${view.range} ${view.from} ${view.to}`;
  const loaded = usePolling(key, async (signal) => {
    const window = windowOf(view, now.peek());
    const over = (of: TimeWindow): Promise<Accounting> => get<Accounting>(accountingPath(pool, [view.by, of.period], of.from, of.to), signal).then(named);
    const [series, sums] = await Promise.all([over(window), get<Accounting>(accountingPath(pool, [view.by], window.from, window.to), signal).then(named)]);
    const known = knownPart(series, window);
    if (known.period === window.period) return { window: known, series, sums };
    const finer = await over(known);
    return { window: knownPart(finer, known), series: finer, sums };
  });
  return (
    <div class="stack page accounting">
      <div class="row page-head">
        <h1>Accounting</h1>
        <p class="soft">GPU-hours used, borrowed, lost to preemption, and waited for. They are recorded in the archive for good.</p>
      </div>
      <div class="row accounting-controls">
        <SegmentedControl legend="Rows" options={KEYS} value={view.by} onChange={(by) => go(by === "preemptor" ? { by, figure: "lost" } : { by })} />
        <TimeRangePicker presets={RANGES} value={view.from === null ? view.range : null} between={{ from: new Date(limits.from).toISOString(), to: new Date(limits.to).toISOString() }} onPreset={(range) => go({ range, from: null, to: null })} onBetween={go} />
      </div>
      <Loaded of={loaded} what="the GPU-hours" retry={loaded.refresh}>
        {(value) => <Found pool={pool} view={view} {...value} go={go} />}
      </Loaded>
    </div>
  );
}

function Found({ pool, view, window, series, sums, go }: { pool: string; view: View; window: TimeWindow; series: Accounting; sums: Accounting; go: (changed: Partial<View>) => void }) {
  const chart = chartOf(series, view.by, view.figure, window);
  const [head, figure] = [KEYS.find(([key]) => key === view.by)![1], FIGURES.find(([key]) => key === view.figure)![1]];
  const ofCapacity = view.figure === "used" || view.figure === "borrowed"; // what is lost would be a line at its foot
  const words = `${figure} GPUs over time by ${head.toLowerCase()}: ${hours(sums.totals[view.figure])} GPU-hours in all`;
  const month = monthOf(undefined, window.to - 1).text;
  const link = view.by === "project" ? (row: Accounting["rows"][number]) => (row.project ? <a href={reportPath(pool, row.project, month)}>{row.project}</a> : "(none)") : undefined;
  return (
    <>
      <Card title="GPUs over time" aside={view.by !== "preemptor" && <SegmentedControl legend="Figure" options={FIGURES} value={view.figure} onChange={(next) => go({ figure: next })} />}>
        {chart.areas.length || (ofCapacity && chart.capacity.some((value) => value > 0)) ? <Chart times={chart.times} until={window.to} series={chartLines(chart, ofCapacity)} unit="GPUs" label={`${words}.`} /> : <EmptyState title="Nothing in this time range" />}
        <p class="soft note">
          Mean of each {window.period}. {window.from > Date.parse(sums.from) && `Nothing is recorded before ${momentOfChart(window.from)}. `}{hours(sums.totals.used)} of {hours(sums.capacity_gpu_hours)} GPU-hours of healthy GPUs were used: {percent(sums.totals.used, sums.capacity_gpu_hours)}.
        </p>
      </Card>
      <Card title={`GPU-hours by ${head.toLowerCase()}`} aside={<Button onClick={() => download(`${pool}-accounting.csv`, csvOf(series.rows, view.by), "text/csv")}>Download CSV</Button>}>
        <AccountingTable caption={`GPU-hours by ${head.toLowerCase()}`} by={view.by} head={head} rows={sums.rows} totals={sums.totals} name={link} />
        <p class="soft note">
          {moment(sums.from)} to {moment(sums.to)}
          {sums.known_until !== null && sums.known_until < sums.to && `, known until ${moment(sums.known_until)}`}. Borrowed is part of used.
        </p>
      </Card>
    </>
  );
}
