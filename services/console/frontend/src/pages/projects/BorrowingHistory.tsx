import { archivePath, get } from "../../lib/api";
import { usePolling } from "../../lib/usePolling";
import { moment, projectName } from "../../lib/format";
import { Card } from "../../ui/Card";
import { EmptyState } from "../../ui/EmptyState";
import { ErrorMessage } from "../../ui/ErrorMessage";
import { Loading } from "../../ui/Loading";
import { useShowMore } from "../../ui/useShowMore";
import { borrowedText, borrowers, HEIGHT, stepsPath, type QuotaSeries, type ProjectSeries } from "./borrowingSeries";
import { projectPath } from "./projectPath";
import type { ChartWindow } from "./chartWindow";

const POINTS = 160;
const AT_FIRST = 8;
const STEP = 40;

/** Borrowing of every project over time, as strips on one time axis. */
export function BorrowingHistory({ pool, over }: { pool: string; over: ChartWindow | null }) {
  const { value, failure, refresh } = usePolling<QuotaSeries>(over && `${pool} ${over.key}`, (signal) =>
    get(archivePath(pool, `quota-series?${new URLSearchParams({ points: `${POINTS}`, from: over!.from, ...(over!.end !== null && { to: over!.end }) })}`), signal),
  );
  return (
    <Card title="Borrowed GPUs over time">
      {value ? <BorrowingStrips pool={pool} found={value} /> : failure ? <ErrorMessage error={failure} retry={refresh} /> : <Loading what="borrowed GPUs" />}
    </Card>
  );
}

function BorrowingStrips({ pool, found }: { pool: string; found: QuotaSeries }) {
  const rows = borrowers(found);
  const [shown, more] = useShowMore(rows, AT_FIRST, STEP);
  if (!found.times.length) return <EmptyState title="No data for this time range">The archive records usage per project while it follows the log.</EmptyState>;
  if (!rows.length) return <p class="soft">No project borrowed GPUs in this time range, up to {moment(found.to!)}.</p>;
  const most = Math.max(...rows.flatMap((row) => row.borrowed.map((value) => value ?? 0)));
  return (
    <>
      <ul class="strips">
        {shown.map((row) => (
          <BorrowingStrip key={row.project} pool={pool} row={row} most={most} />
        ))}
        <li class="strip-times soft number">
          <span>{moment(found.from!)}</span>
          <span>{moment(found.to!)}</span>
        </li>
      </ul>
      {more}
      <p class="soft note">GPUs above the quota, all strips on one scale. Usage includes that of child projects.</p>
    </>
  );
}

function BorrowingStrip({ pool, row, most }: { pool: string; row: ProjectSeries; most: number }) {
  const words = borrowedText(row);
  return (
    <li class="strip">
      {row.project.endsWith("*") ? (
        <span class="cut">{projectName(row.project)}</span>
      ) : (
        <a class="cut" href={projectPath(pool, row.project)}>
          {row.project}
        </a>
      )}
      <svg viewBox={`0 0 ${row.borrowed.length} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${projectName(row.project)} borrowed ${words}`}>
        <title>{`${projectName(row.project)} borrowed ${words}`}</title>
        <path d={stepsPath(row.borrowed, most)} />
      </svg>
      <small class="soft">{words}</small>
    </li>
  );
}
