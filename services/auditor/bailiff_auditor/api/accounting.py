"""Accounting: GPU-hours used, borrowed, lost and waited for, by user, project, class, job and time."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from asyncpg import Record
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from bailiff_service.json_response import JsonResponse

from . import parameters as given
from .problems import bad
from .query import PoolQuery, Reading

router = APIRouter(tags=["accounting"])
PoolQueryParam = Annotated[PoolQuery, Depends()]
Period = Literal["minute", "hour", "day", "month"]
Key = Literal[
    "user",
    "project",
    "priority_class",
    "job",
    "gpu_model",
    "preemptor",
    "preemptor_project",
    "minute",
    "hour",
    "day",
    "month",
]
PERIODS: dict[str, timedelta] = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "month": timedelta(days=28),
}
DEFAULT_SPAN = timedelta(days=7)
OLDEST = datetime(1, 1, 1, tzinfo=UTC)
MAX_PERIODS = 4000
FIGURES = ("used", "borrowed", "lost", "lost_other", "restart", "waiting")
BEGUN = """SELECT least((SELECT min(from_at) FROM gpu_capacity WHERE pool = $1),
    (SELECT min(submitted_at) FROM jobs WHERE pool = $1)) AS time"""
MILLI_SECONDS = 3_600_000  # milli-GPU-seconds and GPU-ms in a GPU-hour
By = Annotated[
    list[Key] | None,
    Query(description="One row for each of these. Repeat it for several; of `minute`, `hour`, `day`, `month` (UTC) at most one."),
]
Limit = Annotated[int, Query(description="Maximum number of rows.", ge=1, le=100_000)]


class Figures(BaseModel):
    """GPU-hours. Exact definitions: docs/how-to/accounting.md."""

    used: float = Field(description="GPUs of tasks, from the order to start until their release is proven.")
    borrowed: float = Field(description="The part of `used` above the quota of the job's project.")
    lost: float = Field(description="Work lost to preemption: since the last checkpoint.")
    lost_other: float = Field(description="Work lost to other ends of attempts that were started again: drains, failures, …")
    restart: float = Field(description="What the policy assumes that all these restarts cost; not part of what is lost.")
    waiting: float = Field(description="GPUs that pending jobs requested.")
    preemptions: int = Field(description="Attempts, or parts of them, that a preemption ended.")
    jobs: int = Field(description="Jobs with any of these.")


class AccountingRow(Figures):
    """One combination of the values of `by`. A value that is not in `by` is null; so is an unknown user or project."""

    time: datetime | None = Field(description="Begin of the minute, hour, day or month.")
    user: str | None
    user_verified: bool | None = Field(
        description="With `user`: whether that is known. Jobs of a name that was not verified have rows of their own."
    )
    project: str | None
    priority_class: str | None = Field(description="The class that the job had then.")
    job: str | None
    submitted_seq: int | None = Field(description="With `job`: which submission of this name.")
    gpu_model: str | None = Field(description="Of the GPUs that the job had; null also for all that it waited for.")
    preemptor: str | None = Field(description="The job that the work was lost to; null also for all that no preemption took.")
    preemptor_project: str | None = Field(description="That job's project.")


class Capacity(BaseModel):
    """GPU-hours of healthy GPUs in one period."""

    time: datetime
    gpu_hours: float


class Accounting(BaseModel):
    """GPU-hours in a window of time."""

    from_: datetime = Field(alias="from")
    to: datetime = Field(description="What the archive does not know yet is not counted: see `known_until`.")
    known_from: datetime | None = Field(description="When the pool had its first GPU or job.")
    known_until: datetime | None = Field(description="The archive has all records up to this time.")
    by: list[Key]
    rows: list[AccountingRow] = Field(description="Ordered by time, then by GPU-hours used, then lost, descending.")
    more: bool = Field(description="Whether rows beyond `limit` were left out. The totals include them.")
    totals: Figures
    capacity_gpu_hours: float = Field(description="Of healthy GPUs in the window, whatever the filters.")
    capacity: list[Capacity] = Field(description="The same by period, if `by` has one.")


@router.get("/pools/{pool}/accounting", response_model=Accounting, summary="GPU-hours by user, project, class, job and time")
async def accounting(
    query: PoolQueryParam,
    by: By = None,
    from_: given.From = None,
    to: given.To = None,
    user: given.Users = None,
    project: given.Projects = None,
    priority_class: given.Classes = None,
    job: given.Jobs = None,
    limit: Limit = 10_000,
) -> JsonResponse:
    """Default: the last seven days in one row. GPU-hours are rounded to a millionth; the totals are rounded after summing."""
    keys = list(dict.fromkeys(by or ()))
    period = _period(keys)
    async with query.reading() as reading:
        first, known = await known_from(reading), await known_until(reading)
        end = to or known or datetime.now(UTC)
        begin = from_ if from_ is not None else max(end, OLDEST + DEFAULT_SPAN) - DEFAULT_SPAN
        if begin >= end:
            raise bad("from", begin.isoformat(), f"a time before {end.isoformat()}")
        if period is not None and (end - begin) / PERIODS[period] > MAX_PERIODS:
            raise bad("by", period, f"a longer period: the window has more than {MAX_PERIODS} of them")
        upto = min(end, known) if known is not None else begin
        bounds = (reading.pool["id"], begin, max(begin, upto), end)
        filters = (user, project, priority_class, job)
        rows = await reading.fetch(_statement(keys, period), *bounds, *filters, limit + 1)
        capacity = await reading.fetch(_capacity_statement(period), *bounds[:3])
        return reading.answer(_answer(keys, period, begin, end, first, known, rows, capacity, limit))


async def known_from(reading: Reading) -> datetime | None:
    """When the pool had its first GPU or job, also of records that were pruned. None: there is nothing yet."""
    (row,) = await reading.fetch(BEGUN, reading.pool["id"])
    found: datetime | None = row["time"]
    return found


async def known_until(reading: Reading) -> datetime | None:
    """The time up to which accounting is complete: when the archive had the whole log last, else that of its newest record.

    None: there is nothing yet.
    """
    pool = reading.pool
    if pool["allocations_seq"] < 0:
        return None
    (row,) = await reading.fetch(
        "SELECT max(time) AS time FROM records WHERE pool = $1 AND seq = $2", pool["id"], pool["allocations_seq"]
    )
    newest: datetime | None = row["time"]
    complete = pool["allocations_seq"] == pool["next_seq"] - 1 and (pool["log_end"] or 0) <= pool["next_offset"]
    if complete and pool["measured_at"] is not None and pool["log_end"] is not None:
        measured: datetime = pool["measured_at"]
        return measured if newest is None else max(newest, measured)
    return newest


def _period(keys: Sequence[str]) -> Period | None:
    found = [key for key in keys if key in PERIODS]
    if len(found) > 1:
        raise bad("by", ", ".join(found), f"at most one of {', '.join(PERIODS)}")
    return found[0] if found else None  # type: ignore[return-value]


def _parts(period: Period | None, begin: str, end: str) -> tuple[str, str]:
    """SQL that cuts an interval at the bounds of periods: the source of `part`, and the length of the part in seconds."""
    if period is None:
        return "(SELECT NULL::timestamp AS part)", f"extract(epoch FROM {end} - {begin})"
    series = (
        f"(SELECT * FROM generate_series(date_trunc('{period}', {begin} AT TIME ZONE 'UTC'), "  # noqa: S608 - our own names
        f"({end} AT TIME ZONE 'UTC') - interval '1 microsecond', interval '1 {period}') AS part)"
    )
    length = (
        f"extract(epoch FROM least({end} AT TIME ZONE 'UTC', part + interval '1 {period}') "
        f"- greatest({begin} AT TIME ZONE 'UTC', part))"
    )
    return series, length


def _statement(keys: Sequence[str], period: Period | None) -> str:
    """Parameters: pool, from, the end of what is known within the window, to, the four filters, limit.

    Amounts are summed exactly: used, borrowed and waiting as milli-GPU-seconds, lost and restart as GPU-ms.
    """
    begin, end = "greatest(u.from_at, $2::timestamptz)", "least(u.to_at, $3::timestamptz)"
    parts, length = _parts(period, begin, end)
    when = f"date_trunc('{period}', l.from_at AT TIME ZONE 'UTC')" if period is not None else "NULL::timestamp"
    joined = _preemptor_of_loss(keys)
    preemptor, preemptor_project = ("e.for_job", "p.project") if joined else ("NULL", "NULL")
    columns = {
        "time": "part",
        "user": "j.user_name",
        "user_verified": "j.user_verified",
        "project": "j.project",
        "priority_class": "x.priority_class",
        "job": "x.job",
        "submitted_seq": "x.submitted_seq",
        "gpu_model": "x.gpu_model",
        "preemptor": "x.preemptor",
        "preemptor_project": "x.preemptor_project",
    }
    wanted = {"time": period is not None, "user_verified": "user" in keys, "submitted_seq": "job" in keys}
    chosen = [name for name in columns if wanted.get(name, name in keys)]
    listed = ", ".join(f'{columns[name]} AS "{name}"' for name in chosen)
    sets = f"GROUPING SETS (({', '.join(columns[name] for name in chosen)}), ())" if chosen else "()"
    order = "".join(
        [', "time"' if period is not None else "", ", sum(used) DESC, sum(lost) DESC", *[f', "{name}"' for name in chosen]]
    )
    return f"""
        WITH x AS (
            SELECT u.job, u.submitted_seq, u.priority_class, part, u.used_gpu_milli * {length} * g.part_of AS used,
                u.borrowed_gpu_milli * {length} * g.part_of AS borrowed, u.waiting_gpu_milli * {length} * g.part_of AS waiting,
                0::numeric AS lost, 0::numeric AS lost_other, 0::numeric AS restart, 0 AS preemptions, g.gpu_model,
                NULL::text AS preemptor, NULL::text AS preemptor_project
            FROM job_usage u CROSS JOIN LATERAL {parts} parts CROSS JOIN LATERAL {_models(keys, "u.used_gpu_milli", "u")} g
            WHERE u.pool = $1 AND tstzrange(u.from_at, u.to_at) && tstzrange($2, $3)
            UNION ALL
            SELECT l.job, l.submitted_seq, l.priority_class, {when}, 0, 0, 0,
                CASE WHEN l.cause = 'preemption' THEN l.work_gpu_ms * g.part_of ELSE 0 END,
                CASE WHEN l.cause = 'preemption' THEN 0 ELSE l.work_gpu_ms * g.part_of END, l.restart_gpu_ms * g.part_of,
                CASE WHEN l.cause = 'preemption' AND g.nth = 1 THEN 1 ELSE 0 END, g.gpu_model, {preemptor}, {preemptor_project}
            FROM lost_work l CROSS JOIN LATERAL {_models(keys, "l.gpu_milli", "l")} g {joined}
            WHERE l.pool = $1 AND l.from_at >= $2 AND l.from_at < $4
        )
        SELECT {listed + ", " if chosen else ""}{f"grouping({columns[chosen[0]]})" if chosen else "1"} AS total,
            sum(used) AS used, sum(borrowed) AS borrowed, sum(waiting) AS waiting, sum(lost) AS lost,
            sum(lost_other) AS lost_other, sum(restart) AS restart, sum(preemptions)::int AS preemptions,
            count(DISTINCT (x.job, x.submitted_seq))::int AS jobs
        FROM x LEFT JOIN jobs j ON j.pool = $1 AND j.job = x.job AND j.submitted_seq = x.submitted_seq
        WHERE ($5::text[] IS NULL OR j.user_name = ANY($5)) AND ($6::text[] IS NULL OR j.project = ANY($6))
            AND ($7::text[] IS NULL OR x.priority_class = ANY($7)) AND ($8::text[] IS NULL OR x.job = ANY($8))
        GROUP BY {sets} ORDER BY total DESC{order} LIMIT $9 + 1"""  # noqa: S608 - our own names


def _models(keys: Sequence[str], gpus: str, row: str) -> str:
    """SQL: the models of the GPUs of a row, each with its part of them; one without a name where no key asks, or it has none."""
    if "gpu_model" not in keys:
        return "(SELECT NULL::text AS gpu_model, 1 AS part_of, 1 AS nth)"
    each = f"jsonb_each_text({row}.gpu_models) WITH ORDINALITY AS m (model, gpus, nth)"
    return (
        f"(SELECT nullif(model, '') AS gpu_model, m.gpus::numeric / {gpus} AS part_of, m.nth FROM {each} WHERE {gpus} > 0 "  # noqa: S608 - ours
        f"UNION ALL SELECT NULL, 1, 1 WHERE {row}.gpu_models = '{{}}')"
    )


def _preemptor_of_loss(keys: Sequence[str]) -> str:
    """SQL that joins the preemptor of a row of `lost_work`, as `e`, and its submission, as `p`; empty where no key needs them."""
    if not {"preemptor", "preemptor_project"} & set(keys):
        return ""
    return PREEMPTOR


PREEMPTOR = """LEFT JOIN LATERAL (
            SELECT e.for_job, e.decided_seq FROM evictions e
            WHERE l.cause = 'preemption' AND e.pool = l.pool AND e.job = l.job AND e.submitted_seq = l.submitted_seq
                AND e.attempt = l.attempt AND e.decided_seq < l.from_seq
            ORDER BY e.decided_seq DESC LIMIT 1
        ) e ON true LEFT JOIN LATERAL (
            SELECT p.project FROM jobs p WHERE p.pool = l.pool AND p.job = e.for_job AND p.submitted_seq < e.decided_seq
            ORDER BY p.submitted_seq DESC LIMIT 1
        ) p ON true"""


def _capacity_statement(period: Period | None) -> str:
    """Parameters: pool, from, the end of what is known within the window."""
    parts, length = _parts(period, "greatest(u.from_at, $2::timestamptz)", "least(u.to_at, $3::timestamptz)")
    return f"""SELECT part AS "time", sum(u.gpu_milli * {length}) AS amount FROM gpu_capacity u CROSS JOIN LATERAL {parts} parts
        WHERE u.pool = $1 AND tstzrange(u.from_at, u.to_at) && tstzrange($2, $3) GROUP BY 1 ORDER BY 1"""  # noqa: S608


def _answer(
    keys: Sequence[str],
    period: Period | None,
    begin: datetime,
    end: datetime,
    first: datetime | None,
    known: datetime | None,
    rows: list[Record],
    capacity: list[Record],
    limit: int,
) -> dict[str, Any]:
    total = rows[0] if rows and (rows[0]["total"] or not keys) else None
    listed = [row for row in rows if row is not total or not keys][:limit]
    named = [name for name in AccountingRow.model_fields if name not in Figures.model_fields]
    return {
        "from": begin,
        "to": end,
        "known_from": first,
        "known_until": known,
        "by": list(keys),
        "rows": [{name: _value(row, name) for name in named} | _figures(row) for row in listed if row["jobs"]],
        "more": len(rows) - (1 if keys else 0) > limit,
        "totals": _figures(total),
        "capacity_gpu_hours": hours_of(sum(row["amount"] for row in capacity)),
        "capacity": [
            {"time": _value(row, "time"), "gpu_hours": hours_of(row["amount"])} for row in capacity if period is not None
        ],
    }


def _value(row: Record, name: str) -> Any:
    found = row.get(name)
    return found.replace(tzinfo=UTC) if isinstance(found, datetime) else found


def _figures(row: Record | None) -> dict[str, Any]:
    counted = {name: row[name] or 0 if row is not None else 0 for name in ("preemptions", "jobs")}
    return {name: hours_of(row[name] if row is not None else 0) for name in FIGURES} | counted


def hours_of(amount: Any) -> float:
    """Milli-GPU-seconds, or GPU-ms, as GPU-hours."""
    return round(float((amount or 0) / MILLI_SECONDS), 6)
