"""Projects: usage against quota and fair share."""

from datetime import datetime
from typing import Annotated

from asyncpg import Record
from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from bailiff_service.json_response import JsonResponse

from . import parameters as given
from .query import Listing, PoolQuery, in_pool

router = APIRouter(tags=["projects"])
PoolQueryParam = Annotated[PoolQuery, Depends()]


class UsageItem(BaseModel):
    """A project's usage at one time. The project '' is the whole pool."""

    project: str
    seq: int
    time: datetime
    gpus: float
    gpus_non_preemptible: float = Field(description="Used by jobs that are not preemptible.")
    gpus_requested: float
    quota: float | None = Field(description="null: unlimited.")
    limit: float | None
    fair_share: float
    borrowed: float | None = Field(description="Usage above quota.")
    cpus: float
    memory_bytes: int


class UsagePage(BaseModel):
    """A page of usage samples."""

    items: list[UsageItem]
    next: str | None


class ProjectItem(BaseModel):
    """A project, its jobs, and its newest usage sample."""

    project: str
    jobs: dict[str, int] = Field(description="Jobs that have not ended, by state.")
    usage: UsageItem | None


class ProjectPage(BaseModel):
    """All projects."""

    items: list[ProjectItem]


USE = """u.project, u.seq, u.time, u.used_gpu_milli / 1000.0::float8 AS gpus,
    u.non_preemptible_gpu_milli / 1000.0::float8 AS gpus_non_preemptible,
    u.requested_gpu_milli / 1000.0::float8 AS gpus_requested, u.quota_gpu_milli / 1000.0::float8 AS quota,
    u.limit_gpu_milli / 1000.0::float8 AS "limit", u.share_gpu_milli / 1000.0::float8 AS fair_share,
    CASE WHEN u.quota_gpu_milli IS NOT NULL
        THEN greatest(0, u.used_gpu_milli - u.quota_gpu_milli) / 1000.0::float8 END AS borrowed,
    u.used_cpu_milli / 1000.0::float8 AS cpus, u.used_memory_bytes AS memory_bytes"""
USAGE = Listing("usage", f"SELECT {USE} FROM project_usage u", {"seq": "u.seq", "project": "u.project"})  # noqa: S608 - ours


@router.get("/pools/{pool}/usage", response_model=UsagePage, summary="Usage against quota and fair share")
async def usage(
    query: PoolQueryParam, paging: given.Pages,
    project: Annotated[list[given.Text] | None, given.several("Only for this project; '' is the whole pool.", "research")] = None,
    from_: given.From = None, to: given.To = None,
) -> JsonResponse:  # fmt: skip
    """Samples over time, about one per minute of log time."""
    where = in_pool("u.pool")
    where.add("u.project = ANY(?)", project)
    where.add("u.time >= ?", from_)
    where.add("u.time < ?", to)
    return await query.page(USAGE, where, paging)


@router.get("/pools/{pool}/projects", response_model=ProjectPage, summary="Projects")
async def projects(query: PoolQueryParam) -> JsonResponse:
    """All projects with jobs or a quota, with the newest usage sample."""
    async with query.reading() as reading:
        key = reading.pool["id"]
        rows: list[Record] = await reading.fetch(
            f"SELECT {USE} FROM project_usage u WHERE u.pool = $1 AND u.seq = (SELECT max(seq) FROM project_usage WHERE pool = $1)",  # noqa: S608, E501
            key,
        )  # fmt: skip
        newest = {row["project"]: dict(row) for row in rows}
        counts: dict[str, dict[str, int]] = {name: {} for name in newest}
        for row in await reading.fetch(
            """SELECT coalesce(project, '') AS project, coalesce(state, '') AS state, count(*) AS jobs FROM jobs
               WHERE pool = $1 AND ended_seq IS NULL GROUP BY 1, 2 ORDER BY 1, 2""",
            key,
        ):
            counts.setdefault(row["project"], {})[row["state"]] = row["jobs"]
        items = [{"project": name, "jobs": counts[name], "usage": newest.get(name)} for name in sorted(counts)]
        return reading.answer({"items": items})
