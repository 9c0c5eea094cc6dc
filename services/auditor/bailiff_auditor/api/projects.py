"""Projects, and their use against quota and fair share."""

from datetime import datetime
from typing import Annotated

from asyncpg import Record
from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from . import parameters as given
from .answers import Answer
from .asking import Ask, Listing, in_domain

router = APIRouter(tags=["projects"])
Asked = Annotated[Ask, Depends()]


class UsageItem(BaseModel):
    """A project's use at a moment. The project '' is the whole pool."""

    project: str
    seq: int
    time: datetime
    gpus: float
    gpus_fixed: float = Field(description="Of the use, by jobs that are not preemptible.")
    gpus_wanted: float
    quota: float | None = Field(description="null: no bound.")
    limit: float | None
    fair_share: float
    borrowed: float | None = Field(description="Use above quota.")
    cpus: float
    memory_bytes: int


class UsagePage(BaseModel):
    """A page of uses."""

    items: list[UsageItem]
    next: str | None


class ProjectItem(BaseModel):
    """A project, its jobs, and its newest noted use."""

    project: str
    jobs: dict[str, int] = Field(description="Jobs that have not ended, by state.")
    use: UsageItem | None


class ProjectPage(BaseModel):
    """All projects."""

    items: list[ProjectItem]


USE = """u.project, u.seq, u.time, u.used_gpu_milli / 1000.0::float8 AS gpus, u.fixed_gpu_milli / 1000.0::float8 AS gpus_fixed,
    u.requested_gpu_milli / 1000.0::float8 AS gpus_wanted, u.quota_gpu_milli / 1000.0::float8 AS quota,
    u.limit_gpu_milli / 1000.0::float8 AS "limit", u.share_gpu_milli / 1000.0::float8 AS fair_share,
    CASE WHEN u.quota_gpu_milli IS NOT NULL
        THEN greatest(0, u.used_gpu_milli - u.quota_gpu_milli) / 1000.0::float8 END AS borrowed,
    u.used_cpu_milli / 1000.0::float8 AS cpus, u.used_memory_bytes AS memory_bytes"""
USAGE = Listing("usage", f"SELECT {USE} FROM project_usage u", {"seq": "u.seq", "project": "u.project"})  # noqa: S608 - ours


@router.get("/domains/{domain}/usage", response_model=UsagePage, summary="Use against quota and fair share")
async def usage(
    ask: Asked, paging: given.Pages,
    project: Annotated[list[given.Text] | None, given.several("Only of this project; '' is the whole pool.", "research")] = None,
    from_: given.From = None, to: given.To = None,
) -> Answer:  # fmt: skip
    """Over time, as it is noted about once per minute of log time."""
    where = in_domain("u.domain")
    where.add("u.project = ANY(?)", project)
    where.add("u.time >= ?", from_)
    where.add("u.time < ?", to)
    return await ask.page(USAGE, where, paging)


@router.get("/domains/{domain}/projects", response_model=ProjectPage, summary="Projects")
async def projects(ask: Asked) -> Answer:
    """All projects that have jobs or a quota, with the newest noted use."""
    async with ask.reading() as reading:
        key = reading.domain["id"]
        rows: list[Record] = await reading.fetch(
            f"SELECT {USE} FROM project_usage u WHERE u.domain = $1 AND u.seq = (SELECT max(seq) FROM project_usage WHERE domain = $1)",  # noqa: S608, E501
            key,
        )  # fmt: skip
        use = {row["project"]: dict(row) for row in rows}
        counts: dict[str, dict[str, int]] = {name: {} for name in use}
        for row in await reading.fetch(
            """SELECT coalesce(project, '') AS project, coalesce(state, '') AS state, count(*) AS jobs FROM jobs
               WHERE domain = $1 AND ended_seq IS NULL GROUP BY 1, 2 ORDER BY 1, 2""",
            key,
        ):
            counts.setdefault(row["project"], {})[row["state"]] = row["jobs"]
        items = [{"project": name, "jobs": counts[name], "use": use.get(name)} for name in sorted(counts)]
        return reading.answer({"items": items})
