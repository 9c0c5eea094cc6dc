import { get, poolPath, useArchive, usePolling, type Attention, type Overview, type OverviewPoint, type Utilisation } from "../../api";
import { lostText, projectName, usePageTitle } from "../../lib";
import { PoolStatePending, unlistedPending, useLive } from "../../live";
import { useChartWindow } from "../../shared/chartWindow";
import { allocation, capacityOf, currentPoint, filled, loadOverview, usedLines } from "../../shared/poolUsage";
import { Badge, Card, DataTable, EmptyState, JobLink, KeyFigure, Loaded, NodeLink, pagePath, projectPath, RelativeTime, SeqLink } from "../../ui";
import { Chart } from "../../ui/Chart";
import { concerns, RANGES, until, waitedText, type Concern } from "./overviewData";
import "./overview.css";

const POINTS = 120;

/** The start page of a pool: its figures over a time range, by project, and what needs a person. */
export default function OverviewPage({ pool }: { pool: string }) {
  const live = useLive(pool);
  usePageTitle(`${pool}: overview`);
  const archive = useArchive();
  void [live.nodesVersion.value, live.jobsVersion.value];
  const { over, picker } = useChartWindow(live.time.value, RANGES, "1h");
  const key = over && `${pool} ${over.key}`;
  const figures = usePolling<Overview>(archive.state === "there" ? key : null, (signal) => loadOverview(pool, over!.from, over!.end, POINTS, signal));
  const attention = usePolling<Attention>(pool, (signal) => get(poolPath(pool, "attention"), signal));
  const busy = usePolling<Utilisation>(key && `busy ${key}`, async (signal) => until(await get(`${poolPath(pool, "utilisation")}?since=${Math.max(0, Math.floor(Date.parse(over!.from) / 1000))}`, signal), over!.end));
  if (live.row.value === null) return <PoolStatePending title="Overview" what="the overview" live={live} />;
  const current = over?.end || unlistedPending(live) > 0 ? null : currentPoint(live.time.value ?? "", live.row.value, live.nodes.values(), live.jobs.values());
  const found = concerns(live.nodes.values(), live.jobs.values(), attention.value ?? undefined);
  return (
    <div class="stack page">
      <div class="row page-head">
        <h1>Overview</h1>
        <span class="spring" />
        {picker}
      </div>
      <Now pool={pool} row={live.row.value} capacity={capacityOf(live.nodes.values())} overview={figures.value} current={current} busy={busy.value} />
      <Card title="Needs attention" aside={attention.value?.alarms === null ? <span class="soft">This console may not read alarms.</span> : undefined}>
        {attention.failure && <p class="fault">Alarms and late starts are unknown: {attention.failure.message}</p>}
        <Concerns pool={pool} found={found} loading={!attention.value && !attention.failure} />
      </Card>
      {archive.state === "none" ? (
        <EmptyState title="No history">Figures over time come from the archive, and none is configured (BAILIFF_API).</EmptyState>
      ) : (
        <Loaded of={figures} what="the figures" retry={figures.refresh}>
          {(overview) => <History pool={pool} overview={overview} busy={busy.value} current={current} />}
        </Loaded>
      )}
    </div>
  );
}

function Now({ pool, row, capacity, overview, current, busy }: { pool: string; row: { gpus: number; gpus_allocated: number; jobs_running: number; jobs_pending: number }; capacity: number; overview: Overview | null; current: OverviewPoint | null; busy: Utilisation | null }) {
  const used = overview ? allocation([...filled(overview), ...(current ? [current] : [])]) : null;
  const mean = busy?.busy.length ? Math.round(busy.busy.reduce((sum, value) => sum + value, 0) / busy.busy.length) : null;
  return (
    <dl class="figures overview-figures">
      <KeyFigure name="GPUs allocated now" href={pagePath(pool)} value={`${row.gpus_allocated}`} rest={`of ${capacity}`} title={`Of the healthy GPUs, also those of drained nodes${row.gpus > capacity ? `; ${row.gpus - capacity} more are quarantined, unhealthy or on a lost node` : ""}`} />
      <KeyFigure name="Jobs running" href={pagePath(pool, ["jobs"], { state: "running" })} value={`${row.jobs_running}`} />
      <KeyFigure name="Jobs pending" href={pagePath(pool, ["queue"])} value={`${row.jobs_pending}`} />
      <KeyFigure name="Allocation" value={used === null ? "–" : `${used} %`} title="Mean over the time range, of the healthy GPUs, also those of drained nodes" />
      <KeyFigure name="Utilisation" value={mean === null ? "–" : `${mean} %`} title={mean === null ? "No telemetry with utilisation was received" : "Mean over the time range, of the GPUs that were measured"} />
      <KeyFigure name="Waiting time" value={waitedText(overview?.pool.waited_mean_s ?? null)} rest={overview?.pool.waited_p95_s != null ? `95 %: ${waitedText(overview.pool.waited_p95_s)}` : ""} title="From submission to first start, of the jobs that started in the time range: mean, and what 95 % did not exceed" />
      <KeyFigure name="Preemptions" value={overview ? overview.pool.preempted.toLocaleString("en") : "–"} title="Jobs evicted for another, in the time range" />
      <KeyFigure name="Work lost" value={overview ? lostText(overview.pool.lost_gpu_hours) : "–"} title="To preemption, by attempts that ended in the time range: since their last checkpoint, without the cost of the restart" />
    </dl>
  );
}

function Concerns({ pool, found, loading }: { pool: string; found: Concern[]; loading: boolean }) {
  if (!found.length) return <p class="soft">{loading ? "Loading…" : "Nothing: no alarms in the last week, no quarantined GPUs, no silent nodes, no late starts."}</p>;
  return (
    <ul class="stack concerns">
      {found.map((each) => (
        <li key={each.key}>
          <Badge tone={each.tone}>{each.what}</Badge>
          <span>
            {each.node && <NodeLink pool={pool} node={each.node} />} {each.job && <JobLink pool={pool} job={each.job} />} {each.text} {each.seq != null && <SeqLink pool={pool} seq={each.seq} />}
          </span>
          {each.at && <span class="soft"><RelativeTime at={each.at} /></span>}
        </li>
      ))}
    </ul>
  );
}

function History({ pool, overview, busy, current }: { pool: string; overview: Overview; busy: Utilisation | null; current: OverviewPoint | null }) {
  const points = [...filled(overview), ...(current ? [current] : [])];
  const measured = busyBySteps(points, overview.interval_s, busy);
  const last = points.at(-1);
  const times = points.map((point) => Date.parse(point.time));
  const end = Date.parse(current?.time ?? overview.to);
  const rows = overview.projects;
  return (
    <>
      <div class="cards">
        <Card title="GPUs in use">
          {points.length && last ? (
            <Chart
              times={times}
              until={end}
              series={[...usedLines(points), ...(measured.some((value) => value !== null) ? [{ name: "busy (telemetry)", kind: "dotted" as const, values: points.map((point, at) => (measured[at] == null ? null : (measured[at]! / 100) * point.gpus)) }] : [])]}
              unit="GPUs"
              label={`GPUs in use: ${Math.round(last.gpus * 10) / 10} of ${Math.round(last.capacity * 10) / 10} at the end, ${allocation(points) ?? 0} % on average.`}
            />
          ) : (
            <p class="soft">The archive knows of no GPUs and no jobs in this time range.</p>
          )}
        </Card>
        <Card title="Queue">
          {points.length && last ? (
            <Chart times={times} until={end} series={[{ name: "requested by pending jobs", kind: "area", values: points.map((point) => point.waiting) }]} unit="GPUs" label={`GPUs that pending jobs request: ${Math.round(last.waiting * 10) / 10} at the end.`} />
          ) : (
            <p class="soft">No samples in this time range.</p>
          )}
        </Card>
      </div>
      <Card title="By project">
        <DataTable
          caption="Figures by project in the time range"
          empty="No job was submitted, started, ended or evicted in this time range."
          rows={rows}
          rowKey={(row) => row.project}
          columns={[
            { head: "Project", cell: (row) => (row.project ? <a href={projectPath(pool, row.project)}>{projectName(row.project)}</a> : projectName(row.project)) },
            { head: "Submitted", right: true, cell: (row) => row.submitted },
            { head: "Started", right: true, cell: (row) => row.started },
            { head: "Ended", right: true, cell: (row) => row.ended },
            { head: "Waited, mean", right: true, cell: (row) => waitedText(row.waited_mean_s) },
            { head: "Waited, 95\u00a0%", right: true, cell: (row) => waitedText(row.waited_p95_s) },
            { head: "Preempted", right: true, cell: (row) => row.preempted },
            { head: "Work lost", right: true, cell: (row) => lostText(row.lost_gpu_hours) },
          ]}
        />
      </Card>
    </>
  );
}

/** The mean utilisation in percent in each interval; null: none was received. */
function busyBySteps(points: readonly { time: string }[], step: number, busy: Utilisation | null): (number | null)[] {
  if (!busy) return points.map(() => null);
  return points.map((point) => {
    const from = Date.parse(point.time) / 1000;
    const inside = busy.busy.filter((_, at) => busy.times[at]! >= from && busy.times[at]! < from + Math.max(step, busy.step_s));
    return inside.length ? inside.reduce((sum, value) => sum + value, 0) / inside.length : null;
  });
}
