"""Who borrowed what: every project's use against quota and fair share over time, in as many stretches as a picture needs."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from asyncpg import Record
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from . import parameters as given
from .answers import Answer
from .asking import Ask, Reading

router = APIRouter(tags=["projects"])
Asked = Annotated[Ask, Depends()]
DEFAULT_SPAN = timedelta(hours=24)
Points = Annotated[int, Query(description="At most so many stretches.", ge=1, le=500)]
Series = list[float | None]

LOOKS = """SELECT min(time) AS oldest, max(time) AS newest,
    (SELECT stretch_us FROM usage_stretches WHERE domain = $1 ORDER BY from_seq DESC LIMIT 1) AS stretch_us
    FROM project_usage WHERE domain = $1 AND project = ''"""
OF_POOL = "SELECT seq FROM project_usage WHERE domain = $1 AND project = '' AND time"
BOUNDS = f"""SELECT coalesce(({OF_POOL} <= $2 ORDER BY time DESC LIMIT 1), ({OF_POOL} > $2 ORDER BY time LIMIT 1)) AS first,
    ({OF_POOL} < $3 ORDER BY time DESC LIMIT 1) AS last"""
MEANS = """SELECT project, least($6, greatest(-1, floor(extract(epoch FROM time - $2) / $3)))::int AS stretch,
    avg(used_gpu_milli)::float8 / 1000 AS gpus, avg(quota_gpu_milli)::float8 / 1000 AS quota,
    avg(share_gpu_milli)::float8 / 1000 AS fair_share, avg(above)::float8 / 1000 AS borrowed, max(above)::float8 / 1000 AS most
    FROM (SELECT *, CASE WHEN quota_gpu_milli IS NOT NULL THEN greatest(0, used_gpu_milli - quota_gpu_milli) END AS above
        FROM project_usage WHERE domain = $1 AND seq BETWEEN $4 AND $5) looks
    GROUP BY 1, 2"""


class ProjectOverTime(BaseModel):
    """A project's use: a value for each of `times`. null: not known, no such project then, or no bound."""

    project: str = Field(description="'' is the whole pool. A project's use includes that of those below it.")
    gpus: Series
    quota: Series
    fair_share: Series
    borrowed: Series = Field(description="Use above quota.")
    gpu_hours: float
    borrowed_gpu_hours: float
    most_borrowed: float = Field(description="At any one look.")


class Borrowing(BaseModel):
    """Stretches of equal length, each with the mean of its looks; where none was taken nothing changed."""

    from_: datetime | None = Field(alias="from", description="null: nothing is noted in that time.")
    to: datetime | None
    stretch_s: int
    times: list[datetime] = Field(description="When each stretch begins.")
    projects: list[ProjectOverTime] = Field(description="Who borrowed most is first.")


@router.get("/domains/{domain}/borrowing", response_model=Borrowing, summary="Who borrowed what, over time")
async def borrowing(ask: Asked, from_: given.From = None, to: given.To = None, points: Points = 120) -> Answer:
    """Of the last 24 hours that are noted, unless `from` and `to` say otherwise."""
    async with ask.reading() as reading:
        return reading.answer(await _told(reading, from_, to, points))


async def _told(reading: Reading, from_: datetime | None, to: datetime | None, points: int) -> dict[str, Any]:
    domain = reading.domain["id"]
    (looks,) = await reading.fetch(LOOKS, domain)
    nothing: dict[str, Any] = {"from": None, "to": None, "stretch_s": 0, "times": [], "projects": []}
    if looks["newest"] is None:
        return nothing
    until = looks["newest"] + timedelta(microseconds=1)
    until = until if to is None else min(to, until)
    if until <= looks["oldest"]:
        return nothing
    begin = max(looks["oldest"], from_ if from_ is not None else until - DEFAULT_SPAN)
    if begin >= until:
        return nothing
    span = (until - begin).total_seconds()
    length = max(math.ceil(span / points), math.ceil((looks["stretch_us"] or 0) / 1e6), 1)
    count = math.ceil(span / length)
    (bounds,) = await reading.fetch(BOUNDS, domain, begin, until)
    rows = await reading.fetch(MEANS, domain, begin, length, bounds["first"], bounds["last"], count - 1)
    hours = [min(length, span - at * length) / 3600 for at in range(count)]
    projects = [_project(name, values, hours) for name, values in _by_project(rows, count).items()]
    return {
        "from": begin, "to": until, "stretch_s": length, "times": [begin + timedelta(seconds=at * length) for at in range(count)],
        "projects": sorted(projects, key=lambda each: (-each["borrowed_gpu_hours"], each["project"])),
    }  # fmt: skip


def _by_project(rows: Sequence[Record], count: int) -> Mapping[str, list[Record | None]]:
    """Each project's row for each stretch; where no look was taken, that of the one before (-1: the look before the first)."""
    noted: dict[int, dict[str, Record]] = {}
    for row in rows:
        noted.setdefault(row["stretch"], {})[row["project"]] = row
    found: dict[str, list[Record | None]] = {name: [] for name in sorted({row["project"] for row in rows})}
    now: dict[str, Record] = noted.get(-1, {})
    for at in range(count):
        now = noted.get(at, now)
        for name, values in found.items():
            values.append(now.get(name))
    return found


def _project(name: str, values: list[Record | None], hours: list[float]) -> dict[str, Any]:
    series = {column: [row[column] if row is not None else None for row in values] for column in SERIES}

    def summed(column: str) -> float:
        return round(sum((value or 0) * length for value, length in zip(series[column], hours, strict=True)), 3)

    most = max((row["most"] or 0 for row in values if row is not None), default=0)
    totals = {"gpu_hours": summed("gpus"), "borrowed_gpu_hours": summed("borrowed"), "most_borrowed": most}
    return {"project": name, **series, **totals}


SERIES = ("gpus", "quota", "fair_share", "borrowed")
