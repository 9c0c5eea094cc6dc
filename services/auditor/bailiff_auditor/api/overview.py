"""Figures of a time range: use, queue, waiting times, preemptions and work lost, of the pool and by project."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from math import ceil
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from bailiff_service.json_response import JsonResponse

from . import parameters as given
from .accounting import known_from
from .query import PoolQuery, Reading

router = APIRouter(tags=["projects"])
Points = Annotated[int, Query(description="Maximum number of intervals.", ge=1, le=500)]
DEFAULT_SPAN = timedelta(hours=1)
AMOUNTS = ("gpus", "capacity", "waiting")
MOST_PROJECTS = 200


class OverviewPoint(BaseModel):
    """The means over an interval. None is before the pool had GPUs or jobs."""

    time: datetime = Field(description="Begin of the interval.")
    gpus: float = Field(description="GPUs in use.")
    capacity: float = Field(description="Healthy GPUs that are not quarantined, of nodes that are not lost; drained ones count.")
    waiting: float = Field(description="GPUs that pending jobs request.")


class RangeFigures(BaseModel):
    """Figures of a time range."""

    project: str = Field(description="'' is the whole pool.")
    submitted: int
    started: int = Field(description="Jobs that started for the first time.")
    ended: int
    waited_mean_s: float | None = Field(description="From submission to first start, of those that started.")
    waited_p95_s: float | None
    preempted: int = Field(description="Attempts, or parts of them, ended by preemption: accounting's `preemptions`.")
    lost_gpu_hours: float = Field(description="Work lost to preemption: accounting's `lost`.")
    lost_other_gpu_hours: float = Field(description="Work lost otherwise: accounting's `lost_other`.")
    restart_gpu_hours: float = Field(description="What the policy assumes that the restarts cost: accounting's `restart`.")


class Overview(BaseModel):
    """A time range of a pool."""

    from_: datetime = Field(alias="from")
    to: datetime
    interval_s: int
    points: list[OverviewPoint]
    pool: RangeFigures
    projects: list[RangeFigures] = Field(
        description=f"Those with work lost, preemptions or jobs in this time, at most {MOST_PROJECTS}."
    )


CHANGES = """WITH held AS (
        SELECT from_at, to_at, used_gpu_milli AS gpus, waiting_gpu_milli AS waiting, 0 AS capacity
        FROM job_usage WHERE pool = $1 AND tstzrange(from_at, to_at) && tstzrange($2, $3)
        UNION ALL
        SELECT from_at, to_at, 0, 0, gpu_milli
        FROM gpu_capacity WHERE pool = $1 AND tstzrange(from_at, to_at) && tstzrange($2, $3)
    ), changes AS (
        SELECT extract(epoch FROM greatest(from_at, $2) - $2) AS at, gpus, waiting, capacity FROM held
        UNION ALL SELECT extract(epoch FROM to_at - $2), -gpus, -waiting, -capacity FROM held WHERE to_at < $3
    )
    SELECT least(ceil(at / $4), $5)::int AS step, sum(gpus)::float8 AS gpus, sum(gpus * at)::float8 AS gpus_at,
        sum(waiting)::float8 AS waiting, sum(waiting * at)::float8 AS waiting_at,
        sum(capacity)::float8 AS capacity, sum(capacity * at)::float8 AS capacity_at
    FROM changes GROUP BY 1"""
"""By how much each changes, and that times when, up to each bound of intervals: both sums together give the integral there."""
STARTED = """SELECT {project} AS project, count(*) AS started,
    avg(extract(epoch FROM first_started_at - submitted_at))::float8 AS waited_mean_s,
    percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM first_started_at - submitted_at))::float8 AS waited_p95_s
    FROM jobs WHERE pool = $1 AND first_started_at >= $2 AND first_started_at < $3 GROUP BY 1"""
SUBMITTED = """SELECT {project} AS project, count(*) AS submitted
    FROM jobs WHERE pool = $1 AND submitted_at >= $2 AND submitted_at < $3 GROUP BY 1"""
LOST = """SELECT {project} AS project, count(*) FILTER (WHERE l.cause = 'preemption') AS preempted,
    coalesce(sum(l.work_gpu_ms) FILTER (WHERE l.cause = 'preemption'), 0)::float8 / 3600000 AS lost_gpu_hours,
    coalesce(sum(l.work_gpu_ms) FILTER (WHERE l.cause != 'preemption'), 0)::float8 / 3600000 AS lost_other_gpu_hours,
    coalesce(sum(l.restart_gpu_ms), 0)::float8 / 3600000 AS restart_gpu_hours
    FROM lost_work l JOIN jobs j USING (pool, job, submitted_seq)
    WHERE l.pool = $1 AND l.from_at >= $2 AND l.from_at < $3 GROUP BY 1"""  # as accounting counts it
ENDED = """SELECT {project} AS project, count(DISTINCT (a.job, a.submitted_seq)) AS ended
    FROM attempts a JOIN jobs j USING (pool, job, submitted_seq)
    WHERE a.pool = $1 AND a.ended_at >= $2 AND a.ended_at < $3 AND j.ended_seq = a.ended_seq GROUP BY 1"""
QUESTIONS = (SUBMITTED, STARTED, ENDED, LOST)
NO_FIGURES: Mapping[str, Any] = {
    "submitted": 0,
    "started": 0,
    "ended": 0,
    "waited_mean_s": None,
    "waited_p95_s": None,
    "preempted": 0,
    "lost_gpu_hours": 0.0,
    "lost_other_gpu_hours": 0.0,
    "restart_gpu_hours": 0.0,
}


@router.get("/pools/{pool}/overview", response_model=Overview, summary="Use, waiting times and preemptions in a time range")
async def overview(
    query: Annotated[PoolQuery, Depends()], from_: given.From = None, to: given.To = None, points: Points = 60
) -> JsonResponse:
    """Default: the last hour of the archive."""
    async with query.reading() as reading:
        until = to if to is not None else datetime.fromisoformat(reading.pool["head_time"]) + timedelta(microseconds=1)
        begin = from_ if from_ is not None else until - DEFAULT_SPAN
        begin = min(max(begin, await known_from(reading) or begin), until)  # no mean counts time before the pool
        length = max(1, -(-int((until - begin).total_seconds()) // points))
        span = (until - begin).total_seconds()
        bounds = [*map(float, range(0, ceil(span), length)), span]
        changes = await reading.fetch(CHANGES, reading.pool["id"], begin, until, length, len(bounds) - 1)
        by_project = await _figures(reading, "coalesce(project, '')", begin, until)
        of_pool = await _figures(reading, "''::text", begin, until)
        found = sorted(by_project.values(), key=lambda row: (-row["lost_gpu_hours"], -row["preempted"], row["project"]))
        return reading.answer(
            {
                "from": begin,
                "to": until,
                "interval_s": length,
                "points": [{"time": begin + timedelta(seconds=at), **means} for at, means in _means(changes, bounds)],
                "pool": of_pool.get("", {"project": "", **NO_FIGURES}),
                "projects": found[:MOST_PROJECTS],
            }
        )


def _means(changes: Sequence[Any], bounds: Sequence[float]) -> Iterator[tuple[float, dict[str, float]]]:
    """The begin of each interval between these bounds, s, and the means in it, from the first with anything on."""
    by_step = {row["step"]: row for row in changes}
    rate, at_rate, before = dict.fromkeys(AMOUNTS, 0.0), dict.fromkeys(AMOUNTS, 0.0), dict.fromkeys(AMOUNTS, 0.0)
    for step, bound in enumerate(bounds):
        for name in AMOUNTS if step in by_step else ():
            rate[name] += by_step[step][name]
            at_rate[name] += by_step[step][f"{name}_at"]
        integral = {name: bound * rate[name] - at_rate[name] for name in AMOUNTS}
        begun = by_step and step >= min(by_step)
        if step and begun and bound > bounds[step - 1]:
            length = 1000 * (bound - bounds[step - 1])
            yield bounds[step - 1], {name: round((integral[name] - before[name]) / length, 3) + 0.0 for name in AMOUNTS}
        before = integral


async def _figures(reading: Reading, project: str, begin: datetime, until: datetime) -> dict[str, dict[str, Any]]:
    """The figures by project; project: the SQL that names it."""
    found: dict[str, dict[str, Any]] = {}
    for question in QUESTIONS:
        for row in await reading.fetch(question.format(project=project), reading.pool["id"], begin, until):
            figures = found.setdefault(row["project"], {"project": row["project"], **NO_FIGURES})
            figures.update({name: value for name, value in row.items() if name != "project"})
    return found
