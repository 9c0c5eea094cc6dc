import { usePolling, type QuotaSeries } from "../../api";
import { count, moment, projectName } from "../../lib";
import { Card, EmptyState, Loaded, projectPath, useShowMore } from "../../ui";
import { Chart } from "../../ui/Chart";
import { borrowedLines, borrowedText, borrowers } from "./borrowingSeries";
import type { ChartWindow } from "../../shared/chartWindow";
import { loadQuotaSeries } from "./usageSeries";

const POINTS = 160;
const AT_FIRST = 8;
const STEP = 40;

/** Borrowing of every project over time. */
export function BorrowingHistory({ pool, over }: { pool: string; over: ChartWindow | null }) {
  const loaded = usePolling<QuotaSeries>(over && `${pool} ${over.key}`, (signal) => loadQuotaSeries(pool, over!, POINTS, null, signal));
  return (
    <Card title="Borrowed GPUs over time">
      <Loaded of={loaded} what="borrowed GPUs" retry={loaded.refresh}>
        {(value) => <Borrowed pool={pool} found={value} />}
      </Loaded>
    </Card>
  );
}

function Borrowed({ pool, found }: { pool: string; found: QuotaSeries }) {
  const rows = borrowers(found);
  const [shown, more] = useShowMore(rows, AT_FIRST, STEP);
  if (!found.times.length) return <EmptyState title="No data for this time range">The archive knows of no use in this time range.</EmptyState>;
  if (!rows.length) return <p class="soft">No project borrowed GPUs in this time range, up to {moment(found.to!)}.</p>;
  return (
    <>
      <Chart times={found.times.map(Date.parse)} until={Date.parse(found.to!)} series={borrowedLines(rows)} unit="GPUs" label={`Borrowed GPUs over time, by project, of ${count(rows.length, "project")}; each is described below.`} />
      <ul class="stack sentences">
        {shown.map((row) => (
          <li key={row.project}>
            {row.project.endsWith("*") ? projectName(row.project) : <a href={projectPath(pool, row.project)}>{row.project}</a>}: <span class="soft">{borrowedText(row)}</span>
          </li>
        ))}
      </ul>
      {more}
      <p class="soft note">GPUs above the quota. Usage includes that of child projects.</p>
    </>
  );
}
