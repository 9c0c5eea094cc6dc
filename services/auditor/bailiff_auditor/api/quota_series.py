"""Time series per project: usage, quota, fair share and borrowing, in intervals of equal length."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from asyncpg import Record
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from bailiff_service.json_response import JsonResponse

from . import parameters as given
from .query import PoolQuery, Reading

router = APIRouter(tags=["projects"])
PoolQueryParam = Annotated[PoolQuery, Depends()]
DEFAULT_SPAN = timedelta(hours=24)
Points = Annotated[int, Query(description="Maximum number of intervals.", ge=1, le=500)]
Series = list[float | None]

SAMPLES = """SELECT min(time) AS oldest, max(time) AS newest,
    (SELECT interval_us FROM usage_intervals WHERE pool = $1 ORDER BY from_seq DESC LIMIT 1) AS interval_us
    FROM project_usage WHERE pool = $1 AND project = ''"""
OF_POOL = "SELECT seq FROM project_usage WHERE pool = $1 AND project = '' AND time"
BOUNDS = f"""SELECT coalesce(({OF_POOL} <= $2 ORDER BY time DESC LIMIT 1), ({OF_POOL} > $2 ORDER BY time LIMIT 1)) AS first,
    ({OF_POOL} < $3 ORDER BY time DESC LIMIT 1) AS last"""
MEANS = """SELECT project, least($6, greatest(-1, floor(extract(epoch FROM time - $2) / $3)))::int AS bucket,
    avg(used[1])::float8 / 1000 AS gpus, avg(quota[1])::float8 / 1000 AS quota,
    avg(fair_share[1])::float8 / 1000 AS fair_share, avg(above)::float8 / 1000 AS borrowed,
    max(above)::float8 / 1000 AS max_borrowed
    FROM (SELECT *, CASE WHEN quota[1] IS NOT NULL THEN greatest(0, used[1] - quota[1]) END AS above
        FROM project_usage WHERE pool = $1 AND seq BETWEEN $4 AND $5) samples
    GROUP BY 1, 2"""


class ProjectSeries(BaseModel):
    """A project's series: one value per entry of `times`. null: unknown, no such project, or unlimited."""

    project: str = Field(description="'' is the whole pool. Usage includes descendant projects.")
    gpus: Series
    quota: Series
    fair_share: Series
    borrowed: Series = Field(description="Usage above quota.")
    gpu_hours: float
    borrowed_gpu_hours: float
    max_borrowed: float = Field(description="Maximum over all samples.")


class QuotaSeries(BaseModel):
    """Intervals of equal length with the mean of their samples; an interval without samples repeats the previous one."""

    from_: datetime | None = Field(alias="from", description="null: no samples in this time.")
    to: datetime | None
    interval_s: int
    times: list[datetime] = Field(description="Begin of each interval.")
    projects: list[ProjectSeries] = Field(description="Ordered by borrowed GPU-hours, descending.")


@router.get("/pools/{pool}/quota-series", response_model=QuotaSeries, summary="Usage, quota and fair share over time")
async def quota_series(
    query: PoolQueryParam, from_: given.From = None, to: given.To = None, points: Points = 120
) -> JsonResponse:
    """Default: the last 24 hours with samples."""
    async with query.reading() as reading:
        return reading.answer(await _series(reading, from_, to, points))


async def _series(reading: Reading, from_: datetime | None, to: datetime | None, points: int) -> dict[str, Any]:
    pool = reading.pool["id"]
    (samples,) = await reading.fetch(SAMPLES, pool)
    empty: dict[str, Any] = {"from": None, "to": None, "interval_s": 0, "times": [], "projects": []}
    if samples["newest"] is None:
        return empty
    until = samples["newest"] + timedelta(microseconds=1)
    until = until if to is None else min(to, until)
    if until <= samples["oldest"]:
        return empty
    begin = max(samples["oldest"], from_ if from_ is not None else until - DEFAULT_SPAN)
    if begin >= until:
        return empty
    span = (until - begin).total_seconds()
    length = max(math.ceil(span / points), math.ceil((samples["interval_us"] or 0) / 1e6), 1)
    count = math.ceil(span / length)
    (bounds,) = await reading.fetch(BOUNDS, pool, begin, until)
    rows = await reading.fetch(MEANS, pool, begin, length, bounds["first"], bounds["last"], count - 1)
    hours = [min(length, span - at * length) / 3600 for at in range(count)]
    projects = [_project(name, values, hours) for name, values in _by_project(rows, count).items()]
    return {
        "from": begin,
        "to": until,
        "interval_s": length,
        "times": [begin + timedelta(seconds=at * length) for at in range(count)],
        "projects": sorted(projects, key=lambda each: (-each["borrowed_gpu_hours"], each["project"])),
    }


def _by_project(rows: Sequence[Record], count: int) -> Mapping[str, list[Record | None]]:
    """Each project's row per interval; without a sample, the previous row (-1: the sample before the first interval)."""
    by_bucket: dict[int, dict[str, Record]] = {}
    for row in rows:
        by_bucket.setdefault(row["bucket"], {})[row["project"]] = row
    found: dict[str, list[Record | None]] = {name: [] for name in sorted({row["project"] for row in rows})}
    current: dict[str, Record] = by_bucket.get(-1, {})
    for at in range(count):
        current = by_bucket.get(at, current)
        for name, values in found.items():
            values.append(current.get(name))
    return found


def _project(name: str, values: list[Record | None], hours: list[float]) -> dict[str, Any]:
    series = {column: [row[column] if row is not None else None for row in values] for column in SERIES}

    def summed(column: str) -> float:
        return round(sum((value or 0) * length for value, length in zip(series[column], hours, strict=True)), 3)

    max_borrowed = max((row["max_borrowed"] or 0 for row in values if row is not None), default=0)
    totals = {"gpu_hours": summed("gpus"), "borrowed_gpu_hours": summed("borrowed"), "max_borrowed": max_borrowed}
    return {"project": name, **series, **totals}


SERIES = ("gpus", "quota", "fair_share", "borrowed")
