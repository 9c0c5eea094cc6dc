"""Time series per project: usage and borrowing as accounting counts them, quota and fair share, in intervals of equal length."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from bailiff_core.model.project_tree import ROOT, ProjectTree
from bailiff_core.model.resource_vector import UNLIMITED
from bailiff_core.records.facts import PolicyApplied
from bailiff_service.json_response import JsonResponse

from . import parameters as given
from .accounting import MILLI_SECONDS, known_until
from .query import PoolQuery, Reading

router = APIRouter(tags=["projects"])
PoolQueryParam = Annotated[PoolQuery, Depends()]
DEFAULT_SPAN = timedelta(hours=24)
Points = Annotated[int, Query(description="Maximum number of intervals.", ge=1, le=500)]
Series = list[float | None]
Only = Annotated[list[given.Text] | None, given.several("Only for this project; '' is the whole pool.", "research")]

OF_POLICIES = "SELECT time, value FROM records WHERE pool = $1 AND type = 'PolicyApplied.v1' AND time"
POLICIES = f"({OF_POLICIES} <= $2 ORDER BY seq DESC LIMIT 1) UNION ALL ({OF_POLICIES} > $2 AND time < $3) ORDER BY time"
FIRST = """SELECT r.time, d.first_policy FROM pools d JOIN records r ON r.pool = d.id AND r.seq = d.first_seq WHERE d.id = $1"""
HELD = """FROM job_usage u JOIN jobs j USING (pool, job, submitted_seq)
    WHERE u.pool = $1 AND tstzrange(u.from_at, u.to_at) && tstzrange($2, $3) AND u.used_gpu_milli > 0"""
PROJECTS = f"SELECT DISTINCT coalesce(j.project, '') AS project {HELD}"
STEPS = f"""WITH held AS (
        SELECT m.period, m.name, m.quota, u.used_gpu_milli AS gpus, m.ends, greatest(u.from_at, m.begins) AS from_at,
            least(u.to_at, m.ends) AS to_at
        FROM (SELECT u.from_at, u.to_at, u.used_gpu_milli, coalesce(j.project, '') AS project {HELD}) u
        JOIN unnest($4::int[], $5::timestamptz[], $6::timestamptz[], $7::text[], $8::text[], $9::bigint[])
            AS m (period, begins, ends, project, name, quota)
            ON m.project = u.project AND u.from_at < m.ends AND coalesce(u.to_at, m.ends) > m.begins
    ), changes AS (
        SELECT period, name, quota, ends, from_at AS at, gpus FROM held
        UNION ALL SELECT period, name, quota, ends, to_at, -gpus FROM held WHERE to_at < ends
    ), steps AS (
        SELECT name, extract(epoch FROM at - $2::timestamptz) AS begin,
            extract(epoch FROM lead(at, 1, ends) OVER same - $2::timestamptz) AS until, sum(sum(gpus)) OVER same AS gpus, quota
        FROM changes GROUP BY period, name, quota, ends, at WINDOW same AS (PARTITION BY period, name ORDER BY at)
    ), parts AS (
        SELECT name, step, gpus, greatest(0, gpus - quota) AS above,
            least(until, (step + 1) * $10::numeric) - greatest(begin, step * $10::numeric) AS lasted
        FROM steps, generate_series(floor(begin / $10::numeric)::int, ceil(until / $10::numeric)::int - 1) AS step
        WHERE until > begin
    )
    SELECT name, step, sum(gpus * lasted)::float8 AS gpus, coalesce(sum(above * lasted), 0)::float8 AS borrowed,
        max(gpus)::float8 AS max_gpus, coalesce(max(above), 0)::float8 AS max_borrowed,
        coalesce(sum(lasted) FILTER (WHERE above > 0), 0)::float8 AS borrowing_s
    FROM parts GROUP BY name, step"""  # noqa: S608 - our own names
"""What each project and those above it used, step by step, cut at the bounds of intervals: milli-GPU-seconds in each."""
SAMPLES = """SELECT project, least($4, greatest(-1, floor(extract(epoch FROM time - $2::timestamptz) / $5)))::int AS step,
    avg(fair_share[1])::float8 / 1000 AS fair_share, avg(past_use[1])::float8 / 1000 AS past_use
    FROM project_usage WHERE pool = $1 AND time < $3 AND time >= coalesce((SELECT max(time) FROM project_usage
        WHERE pool = $1 AND project = '' AND time <= $2), $2) GROUP BY 1, 2"""


class ProjectSeries(BaseModel):
    """A project's series: one value per entry of `times`. null: unknown, no such project, or unlimited."""

    project: str = Field(description="'' is the whole pool. Usage includes descendant projects.")
    gpus: Series = Field(description="Used, on average in the interval: accounting's `used`.")
    quota: Series
    fair_share: Series = Field(description="The mean of samples, about one per minute.")
    past_use: Series = Field(description="Above the quota, on average over the past by the half-life; the mean of samples.")
    borrowed: Series = Field(description="Usage above quota, on average. Of a project without children: accounting's `borrowed`.")
    gpu_hours: float
    borrowed_gpu_hours: float
    max_gpus: float
    max_borrowed: float
    borrowed_part: float = Field(description="Part of the time in which it borrowed, 0 to 1.")


class QuotaSeries(BaseModel):
    """Intervals of equal length; the last one may be shorter."""

    from_: datetime | None = Field(alias="from", description="null: nothing is known of this time.")
    to: datetime | None
    interval_s: int
    times: list[datetime] = Field(description="Begin of each interval.")
    projects: list[ProjectSeries] = Field(description="Ordered by borrowed GPU-hours, descending.")


class Period(NamedTuple):
    """A time, in s of the range, with the project tree of the policy then in force."""

    begin: float
    end: float
    tree: ProjectTree

    def quota_of(self, name: str) -> int | None:
        """Thousandths of GPUs; None: unlimited, or no such project."""
        branch = self.tree.branches.get(name)
        return None if name == ROOT or branch is None or branch.quota.gpu_milli == UNLIMITED else int(branch.quota.gpu_milli)


@router.get("/pools/{pool}/quota-series", response_model=QuotaSeries, summary="Usage, quota and fair share over time")
async def quota_series(
    query: PoolQueryParam, project: Only = None, from_: given.From = None, to: given.To = None, points: Points = 120
) -> JsonResponse:
    """Default: the last 24 hours that are known."""
    async with query.reading() as reading:
        return reading.answer(await _series(reading, project, from_, to, points))


async def _series(
    reading: Reading, only: list[str] | None, from_: datetime | None, to: datetime | None, points: int
) -> dict[str, Any]:
    pool, until = reading.pool["id"], await known_until(reading)
    empty: dict[str, Any] = {"from": None, "to": None, "interval_s": 0, "times": [], "projects": []}
    first = await reading.fetch(FIRST, pool)
    if until is None or not first:
        return empty
    until = until if to is None else min(to, until)
    begin = max(first[0]["time"], until - DEFAULT_SPAN if from_ is None else from_) if until > first[0]["time"] else until
    policies = [(row["time"], row["value"]) for row in await reading.fetch(POLICIES, pool, begin, until)]
    if first[0]["first_policy"] is not None:
        policies.insert(0, (first[0]["time"], first[0]["first_policy"]))
    if not policies:
        return empty
    begin = max(begin, policies[0][0])
    if begin >= until:
        return empty
    span = (until - begin).total_seconds()
    length = max(math.ceil(span / points), 1)
    bounds = [min(span, at * length) for at in range(math.ceil(span / length) + 1)]
    starts = [max(0.0, (time - begin).total_seconds()) for time, _ in policies]
    trees = [ProjectTree(PolicyApplied.model_validate_json(value).policy.projects) for _, value in policies]
    ends = [*starts[1:], span]
    periods = [Period(*each) for each in zip(starts, ends, trees, strict=True) if each[0] < each[1]]
    names = sorted({name for period in periods for name in period.tree.branches if only is None or name in only})
    used = await _used(reading, begin, until, periods, length)
    samples = await _samples(reading, begin, until, length, len(bounds) - 1)
    projects = [_project(name, bounds, periods, used.get(name, {}), samples.get(name, {})) for name in names]
    return {
        "from": begin,
        "to": until,
        "interval_s": length,
        "times": [begin + timedelta(seconds=at) for at in bounds[:-1]],
        "projects": sorted(projects, key=lambda each: (-each["borrowed_gpu_hours"], each["project"])),
    }


async def _used(
    reading: Reading, begin: datetime, until: datetime, periods: Sequence[Period], length: int
) -> dict[str, dict[int, Mapping[str, Any]]]:
    """The sums of each project, by interval."""
    pool = reading.pool["id"]
    of_jobs = [row["project"] for row in await reading.fetch(PROJECTS, pool, begin, until)]
    members = [
        (at, begin + timedelta(seconds=period.begin), begin + timedelta(seconds=period.end), project, name, period.quota_of(name))
        for at, period in enumerate(periods)
        for project in of_jobs
        for name in period.tree.branches[period.tree.leaf_of(project)].path
    ]
    found: dict[str, dict[int, Mapping[str, Any]]] = {}
    columns = [list(column) for column in zip(*members, strict=True)] or [[]] * 6
    for row in await reading.fetch(STEPS, pool, begin, until, *columns, length):
        found.setdefault(row["name"], {})[row["step"]] = row
    return found


async def _samples(
    reading: Reading, begin: datetime, until: datetime, length: int, count: int
) -> dict[str, dict[int, Mapping[str, Any]]]:
    """The fair share and past use of each project, by interval; -1: by the sample before the first."""
    found: dict[str, dict[int, Mapping[str, Any]]] = {}
    for row in await reading.fetch(SAMPLES, reading.pool["id"], begin, until, count - 1, length):
        found.setdefault(row["project"], {})[row["step"]] = row
    return found


def _project(
    name: str,
    bounds: Sequence[float],
    periods: Sequence[Period],
    used: Mapping[int, Mapping[str, Any]],
    samples: Mapping[int, Mapping[str, Any]],
) -> dict[str, Any]:
    series: dict[str, Series] = {"gpus": [], "quota": [], "fair_share": [], "past_use": [], "borrowed": []}
    unknown: Mapping[str, Any] = {"fair_share": None, "past_use": None}
    sample = samples.get(-1, unknown)
    for step, (begin, end) in enumerate(pairwise(bounds)):
        sums = used.get(step, {})
        milli_seconds = 1000 * (end - begin)
        quota = _quota(name, periods, begin, end)
        sample = samples.get(step, sample)
        series["gpus"].append(round(sums.get("gpus", 0.0) / milli_seconds, 3))
        series["quota"].append(quota)
        for each in unknown:
            series[each].append(sample[each])
        series["borrowed"].append(None if quota is None else round(sums.get("borrowed", 0.0) / milli_seconds, 3))
    rows = used.values()
    return {
        "project": name,
        **series,
        "gpu_hours": round(sum(row["gpus"] for row in rows) / MILLI_SECONDS, 6),
        "borrowed_gpu_hours": round(sum(row["borrowed"] for row in rows) / MILLI_SECONDS, 6),
        "max_gpus": max((row["max_gpus"] for row in rows), default=0.0) / 1000,
        "max_borrowed": max((row["max_borrowed"] for row in rows), default=0.0) / 1000,
        "borrowed_part": round(sum(row["borrowing_s"] for row in rows) / bounds[-1], 4),
    }


def _quota(name: str, periods: Sequence[Period], begin: float, end: float) -> float | None:
    """The mean quota of GPUs between these times, of the time in which there is one."""
    total = lasted = 0.0
    for period in periods:
        part = min(end, period.end) - max(begin, period.begin)
        quota = period.quota_of(name) if part > 0 else None
        if quota is not None:
            total, lasted = total + quota * part, lasted + part
    return round(total / lasted / 1000, 3) if lasted else None
