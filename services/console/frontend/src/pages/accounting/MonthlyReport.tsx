import { archivePath, get, usePolling, type Accounting, type MonthReport } from "../../api";
import { moment } from "../../lib";
import { Button, Card, DescriptionItem, EmptyState, Loaded, pagePath } from "../../ui";
import { Chart } from "../../ui/Chart";
import { hours, percent, reportPath } from "../../shared/gpuHours";
import { accountingPath, chartLines, chartOf, named, neighbour, type Key, type Month } from "./accountingData";
import { AccountingTable } from "./AccountingTable";

const JOBS = "25";
const PARTS: readonly [Key, string][] = [
  ["user", "User"],
  ["priority_class", "Class"],
  ["job", "Job"],
  ["gpu_model", "GPU model"],
  ["preemptor", "Preemptor"],
];

/** GPU-hours of one project in one month, made to be printed. */
export function MonthlyReport({ pool, project, month }: { pool: string; project: string; month: Month }) {
  const loaded = usePolling(`${pool} ${project} ${month.text}`, async (signal) => {
    const ask = (by: string[], more: Record<string, string> = {}): Promise<Accounting> => get<Accounting>(accountingPath(pool, by, month.from, month.to, { project, ...more }), signal).then(named);
    const report = get<MonthReport>(archivePath(pool, `month?month=${month.text}`), signal);
    const [days, ...parts] = await Promise.all([ask(["user", "day"]), ...PARTS.map(([key]) => ask([key], key === "job" || key === "preemptor" ? { limit: JOBS } : {}))]);
    const { budgets } = await report;
    return { days: days!, parts, budgets: budgets.filter((each) => each.project === project) };
  });
  return (
    <div class="stack page accounting report">
      <div class="row page-head">
        <p class="crumbs no-print">
          <a href={pagePath(pool, ["accounting"])}>Accounting</a>
        </p>
        <h1>
          <bdi>{project}</bdi>, {month.text}
        </h1>
        <p class="soft">GPU-hours of the project’s jobs in pool {pool}, months in UTC. Subprojects have reports of their own.</p>
        <p class="row report-actions no-print">
          <a href={reportPath(pool, project, neighbour(month, -1))}>{neighbour(month, -1)}</a>
          <a href={reportPath(pool, project, neighbour(month, 1))}>{neighbour(month, 1)}</a>
          <Button onClick={() => print()}>Print</Button>
        </p>
      </div>
      <Loaded of={loaded} what="the report" retry={loaded.refresh}>
        {(value) => <Report month={month} {...value} />}
      </Loaded>
    </div>
  );
}

function Report({ month, days, parts, budgets }: { month: Month; days: Accounting; parts: Accounting[]; budgets: MonthReport["budgets"] }) {
  const { totals } = days;
  const chart = chartOf(days, "user", "used", { ...month, period: "day" });
  if (!totals.jobs) return <EmptyState title="Nothing in this month">No job of the project used, lost or waited for GPUs.</EmptyState>;
  const facts: [string, string][] = [
    ...budgets.map((each): [string, string] => [`Budget ${each.budget}`, `${hours(each.used)} of ${each.hours.toLocaleString("en")} GPU-hours, ${hours(each.left)} left`]),
    ["Used", `${hours(totals.used)} GPU-hours`],
    ["Borrowed above the quota", `${hours(totals.borrowed)} GPU-hours, ${percent(totals.borrowed, totals.used)} of it`],
    ["Lost to preemption", `${hours(totals.lost)} GPU-hours, ${percent(totals.lost, totals.used)} of what was used`],
    ["Restarts, after all ends", `${hours(totals.restart)} GPU-hours`],
    ["Lost to other ends", `${hours(totals.lost_other)} GPU-hours`],
    ["Waited for", `${hours(totals.waiting)} GPU-hours`],
    ["Preemptions", totals.preemptions.toLocaleString("en")],
    ["Jobs", totals.jobs.toLocaleString("en")],
    ["Part of the pool’s healthy GPUs", percent(totals.used, days.capacity_gpu_hours)],
  ];
  return (
    <>
      <Card title="Summary">
        <dl class="key-facts">
          {facts.map(([name, text]) => (
            <DescriptionItem key={name} name={name}>
              {text}
            </DescriptionItem>
          ))}
        </dl>
      </Card>
      <Card title="GPUs used by day">
        {chart.areas.length ? <Chart times={chart.times} until={month.to} series={chartLines(chart, false)} unit="GPUs" label={`GPUs used by day and user: ${hours(totals.used)} GPU-hours in all.`} /> : <p class="soft">No GPU was used.</p>}
      </Card>
      {parts.map((found, at) => {
        const [key, head] = PARTS[at]!;
        return (
          <Card key={key} title={`By ${head.toLowerCase()}`}>
            <AccountingTable caption={`GPU-hours by ${head.toLowerCase()}`} by={key} head={head} rows={found.rows} totals={found.totals} />
            {found.more && <p class="soft note">{key === "job" ? `The ${JOBS} jobs that used the most` : `The ${JOBS} jobs that most was lost to`}; the total has all.</p>}
          </Card>
        );
      })}
      <p class="soft note">
        {moment(days.from)} to {moment(days.to)}
        {days.known_until !== null && days.known_until < days.to && `, known until ${moment(days.known_until)}`}. Computed from the audit log.
      </p>
    </>
  );
}

