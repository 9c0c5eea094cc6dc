import { archivePath, get, poolPath, useArchive, useFetch, usePolling, type BudgetView, type MonthReport } from "../../api";
import { Badge, Card, DataTable, projectPath } from "../../ui";
import { hours, percent, reportPath } from "../../shared/gpuHours";
import { BUDGET_TONES, budgetsOf, lossesOf, sharesText } from "./budgetRows";

interface Props {
  pool: string;
  project: string;
  ancestors: readonly string[];
  newest: number;
}

/** The budgets of a project's jobs in this month, and what preemption took from them, for whom. newest: refresh key. */
export function ProjectBudgets({ pool, project, ancestors, newest }: Props) {
  const budgets = budgetsOf(usePolling<BudgetView[]>(`${pool} budgets`, (signal) => get(poolPath(pool, "budgets"), signal)).value ?? [], project, ancestors);
  const { state } = useArchive();
  const report = useFetch<MonthReport>(state === "none" ? null : archivePath(pool, "month"), String(newest)).value.value;
  const losses = report ? lossesOf(report, project) : null;
  if (!budgets.length && !losses?.preemptions) return null;
  return (
    <Card title="This month" aside={report && project !== "" && <a href={reportPath(pool, project, report.month)}>Report of {report.month}</a>}>
      {budgets.length > 0 && (
        <DataTable
          caption="Budgets of GPU-hours in this month"
          rows={budgets}
          rowKey={(row) => row.budget}
          columns={[
            { head: "Budget", cell: (row) => row.budget },
            { head: "Of", cell: (row) => sharesText(row) },
            { head: "GPU-hours", right: true, cell: (row) => row.hours.toLocaleString("en") },
            { head: "Used", right: true, cell: (row) => <span class="nowrap">{hours(row.used_hours)} <span class="soft">{percent(row.used_hours, row.hours)}</span></span> },
            { head: "Left", right: true, cell: (row) => hours(row.left_hours) },
            { head: "Level", cell: (row) => <Badge tone={BUDGET_TONES[row.level]}>{row.level}</Badge> },
            { head: "Once used", cell: (row) => row.at_limit },
          ]}
        />
      )}
      {losses !== null && losses.preemptions > 0 && (
        <>
          <p>
            Lost to preemption: {hours(losses.lost)} GPU-hours of work, and {hours(losses.restart)} GPU-hours to restart.
          </p>
          <DataTable
            caption="Lost to jobs of these projects"
            rows={losses.lost_to}
            rowKey={(row) => row.project}
            columns={[
              { head: "To", cell: (row) => (row.project ? <a href={projectPath(pool, row.project)}>{row.project}</a> : "jobs without a project") },
              { head: "Work", right: true, cell: (row) => hours(row.lost) },
              { head: "Restarts", right: true, cell: (row) => hours(row.restart) },
              { head: "Preemptions", right: true, cell: (row) => row.preemptions },
            ]}
          />
        </>
      )}
    </Card>
  );
}
