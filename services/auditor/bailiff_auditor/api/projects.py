"""Projects: usage against quota and fair share."""

from typing import Annotated, Any

from asyncpg import Record
from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from bailiff_core.views import Moment, ProjectView, project_view
from bailiff_log.quota_usage_rows import USAGE_NAMES
from bailiff_service.json_response import JsonResponse

from . import parameters as given
from .query import Listing, PoolQuery, in_pool

router = APIRouter(tags=["projects"])
PoolQueryParam = Annotated[PoolQuery, Depends()]


class UsageItem(ProjectView):
    """A project's usage at one time. The project '' is the whole pool, whose fair share is its capacity."""

    seq: int
    time: Moment


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


def _usage(row: Record) -> dict[str, Any]:
    return {**project_view(row["project"], row), "seq": row["seq"], "time": row["time"]}


USAGE = Listing("usage", f"SELECT {USAGE_NAMES} FROM project_usage u", {"seq": "u.seq", "project": "u.project"}, _usage)  # noqa: S608 - ours


@router.get("/pools/{pool}/usage", response_model=UsagePage, summary="Usage against quota and fair share")
async def usage(
    query: PoolQueryParam,
    paging: given.Pages,
    project: Annotated[list[given.Text] | None, given.several("Only for this project; '' is the whole pool.", "research")] = None,
    from_: given.From = None,
    to: given.To = None,
) -> JsonResponse:
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
            f"SELECT {USAGE_NAMES} FROM project_usage u WHERE u.pool = $1 AND u.seq = (SELECT max(seq) FROM project_usage WHERE pool = $1)",  # noqa: S608, E501
            key,
        )
        newest = {row["project"]: _usage(row) for row in rows}
        counts: dict[str, dict[str, int]] = {name: {} for name in newest}
        for row in await reading.fetch(
            """SELECT coalesce(project, '') AS project, coalesce(state, '') AS state, count(*) AS jobs FROM jobs
               WHERE pool = $1 AND ended_seq IS NULL GROUP BY 1, 2 ORDER BY 1, 2""",
            key,
        ):
            counts.setdefault(row["project"], {})[row["state"]] = row["jobs"]
        items = [{"project": name, "jobs": counts[name], "usage": newest.get(name)} for name in sorted(counts)]
        return reading.answer({"items": items})
