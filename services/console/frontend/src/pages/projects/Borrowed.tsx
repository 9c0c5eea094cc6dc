import { useSignal } from "@preact/signals";

import { archivePath, get } from "../../lib/api";
import { useRefreshed } from "../../lib/refreshed";
import { moment } from "../../lib/words";
import { Card } from "../../ui/Card";
import { Empty } from "../../ui/Empty";
import { Failure } from "../../ui/Failure";
import { Loading } from "../../ui/Loading";
import { useMore } from "../../ui/More";
import { Segmented } from "../../ui/Segmented";
import { borrowedText, borrowers, HEIGHT, stepsPath, type Borrowing, type OverTimeRow } from "./borrowed";
import { projectPath } from "./path";
import { RANGES, since, type Range } from "./usage";

const POINTS = 160;
const AT_FIRST = 8;
const STEP = 40;

/** Every project that borrowed, each as a strip of the same time and the same height. to: the newest moment of the log. */
export function Borrowed({ pool, to }: { pool: string; to: string | null }) {
  const range = useSignal<Range>("6h");
  const { value, failure, again } = useRefreshed<Borrowing>(to === null ? null : `${pool} ${range.value}`, (signal) =>
    get(archivePath(pool, `borrowing?points=${POINTS}&from=${encodeURIComponent(since(to!, range.value))}`), signal),
  );
  return (
    <Card title="Who borrowed what, over time" aside={<Segmented legend="Borrowed: how far back" options={RANGES} value={range.value} onChange={(next) => (range.value = next)} />}>
      {value ? <Strips pool={pool} found={value} /> : failure ? <Failure refusal={failure} again={again} /> : <Loading what="what was borrowed" />}
    </Card>
  );
}

function Strips({ pool, found }: { pool: string; found: Borrowing }) {
  const rows = borrowers(found);
  const [shown, more] = useMore(rows, AT_FIRST, STEP);
  if (!found.times.length) return <Empty title="Nothing is noted of that time">The archive notes each project's use from the moment it follows the log.</Empty>;
  if (!rows.length) return <p class="soft">Nobody, at the moments that the archive has noted; the last of them is {moment(found.to!)}.</p>;
  const most = Math.max(...rows.flatMap((row) => row.borrowed.map((value) => value ?? 0)));
  return (
    <>
      <ul class="strips">
        {shown.map((row) => (
          <Strip key={row.project} pool={pool} row={row} most={most} />
        ))}
        <li class="strip-times soft number">
          <span>{moment(found.from!)}</span>
          <span>{moment(found.to!)}</span>
        </li>
      </ul>
      {more}
      <p class="soft note">GPUs above the quota, all strips to one scale. A project's use includes that of the projects below it.</p>
    </>
  );
}

function Strip({ pool, row, most }: { pool: string; row: OverTimeRow; most: number }) {
  const words = borrowedText(row);
  return (
    <li class="strip">
      <a class="cut" href={projectPath(pool, row.project)}>
        {row.project}
      </a>
      <svg viewBox={`0 0 ${row.borrowed.length} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${row.project} borrowed ${words}`}>
        <title>{`${row.project} borrowed ${words}`}</title>
        <path d={stepsPath(row.borrowed, most)} />
      </svg>
      <small class="soft">{words}</small>
    </li>
  );
}
