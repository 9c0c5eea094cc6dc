"""Collects rows in a temporary SQLite file and yields jobs: rows of a job may be far apart, and there may be millions."""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from .records import ENDS_A_JOB, Attempt, AttemptRow, BadLine, Found, HistoryJob, Skipped
from .usage import Usage

COLUMNS = AttemptRow._fields
NODES, START = COLUMNS.index("nodes"), COLUMNS.index("start")
BATCH = 5_000
CREATE = (
    "create table attempts (job text, submitted integer, start integer, end integer, state text, gpus integer, component integer,"
    " ran integer, node_count integer, nodes text, user text, project text, tier text, model text, run_limit integer,"
    " preemptor text, gpu_milli integer, cpu_milli integer, memory_bytes integer, began integer,"
    " unique (job, component, submitted, began))"
)
# The same attempt in two files, of which the older was written while it ran: the later state holds.
INSERT = (
    f"insert into attempts values ({','.join('?' * (len(COLUMNS) + 1))})"  # noqa: S608 - question marks only
    " on conflict (job, component, submitted, began) do update set end = excluded.end, state = excluded.state,"
    " ran = excluded.ran where attempts.state in ('running', 'pending')"
)


class Store:
    """Rows on disk.

    Attributes:
        skipped: Number of lines left out, by reason.
        bad: Number of those that cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._database = sqlite3.connect(folder / "attempts.sqlite", isolation_level=None)
        self._database.executescript("pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -32000;" + CREATE)
        self.skipped: dict[str, int] = {}
        self.bad = self.rows = 0

    def fill(self, found: Iterable[Found], report_bad: Callable[[BadLine], None]) -> None:
        """Takes all rows. report_bad: called for each line that cannot be read."""
        batch: list[tuple[object, ...]] = []
        self._database.execute("begin")
        for each in found:
            if isinstance(each, AttemptRow):
                self.rows += 1
                values = list(each)
                values[NODES] = " ".join(each.nodes)
                batch.append((*values, -self.rows if each.start is None else each.start))
                if len(batch) == BATCH:
                    self._database.executemany(INSERT, batch)
                    batch.clear()
            elif isinstance(each, Skipped):
                self.skipped[each.reason] = self.skipped.get(each.reason, 0) + each.jobs
            else:
                self.bad += 1
                report_bad(each)
        self._database.executemany(INSERT, batch)
        stored = self._database.execute("select count(*) from attempts").fetchone()[0]
        if self.rows > stored:
            self.skipped["the same attempt again"] = self.rows - stored
        self._database.execute("commit")

    def jobs(self) -> Iterator[HistoryJob]:
        """Each job with its attempts. An id that is used again after the job had ended is another job, with a suffix."""
        rows = self._database.execute(
            "select * from attempts order by job, coalesce(start, end, submitted), submitted, began, component"
        )
        for name, of_id in groupby(rows, key=itemgetter(0)):
            whole = [_row(row) for row in of_id]
            for number, rows_of_job in enumerate(_by_use(whole)):
                yield _job(name if not number else f"{name}.{number + 1}", rows_of_job)

    def by_start(self) -> Iterator[Usage]:
        """Each attempt with known times, by start."""
        rows = self._database.execute(
            "select start, end, gpus, cpu_milli, memory_bytes, node_count, nodes from attempts"
            " where start is not null and end is not null order by start, job"
        )
        for start, end, gpus, cpu_milli, memory, count, nodes in rows:
            yield Usage(start, end, gpus, cpu_milli, memory, count, tuple(nodes.split()))

    def has_cpus(self) -> bool:
        """Whether any attempt says how many CPUs it had."""
        return self._database.execute("select 1 from attempts where cpu_milli > 0 limit 1").fetchone() is not None

    def of(self, job: str) -> tuple[str, str] | None:
        """Project and tier of a job; None if it has no row."""
        found: tuple[str, str] | None = self._database.execute(
            "select project, tier from attempts where job = ? limit 1", (job,)
        ).fetchone()
        return found

    def started_after(self, job: str, at: int, within: int, nodes: Collection[str]) -> list[tuple[str, str]]:
        """Project and tier of the jobs that started on one of the nodes within that time after `at`, in order."""
        self._database.execute("create index if not exists by_start on attempts (began)")
        rows = self._database.execute(
            "select project, tier, nodes from attempts where began between ? and ? and job != ? order by began, job limit 200",
            (at, at + within, job),
        )
        return [(project, tier) for project, tier, on in rows if not set(on.split()).isdisjoint(nodes)]

    def close(self) -> None:
        """Closes the file."""
        self._database.close()


def _row(values: tuple[Any, ...]) -> AttemptRow:
    return AttemptRow._make((*values[:NODES], tuple(values[NODES].split()), *values[NODES + 1 : len(COLUMNS)]))


def _by_use(rows: list[AttemptRow]) -> list[list[AttemptRow]]:
    found: list[list[AttemptRow]] = []
    ended = True
    for row in rows:
        same_start = found and row.component and row.submitted == found[-1][-1].submitted
        if ended and not same_start:
            found.append([])
        found[-1].append(row)
        ended = row.state in ENDS_A_JOB
    return found


def _job(name: str, rows: list[AttemptRow]) -> HistoryJob:
    first = rows[-1]
    parts = {row.component: row for row in rows}  # the latest of each component
    lead = [row for row in rows if row.component == min(parts)]
    attempts = tuple(Attempt(row.start, row.end, row.ran, row.state, row.nodes, row.preemptor) for row in lead)
    models = {row.model for row in parts.values()}
    return HistoryJob(
        name,
        first.user,
        first.project,
        first.tier,
        min(row.submitted for row in rows),
        sum(row.gpus for row in parts.values()),
        first.gpu_milli,
        sum(row.node_count for row in parts.values()),
        first.model if len(models) == 1 else "",
        first.limit,
        sum(row.cpu_milli for row in parts.values()),
        sum(row.memory_bytes for row in parts.values()),
        attempts,
    )
