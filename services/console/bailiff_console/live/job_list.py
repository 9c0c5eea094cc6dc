"""`/api/pools/{pool}/jobs`: pages of all jobs of the live state. The stream has only those at the front."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from typing_extensions import TypedDict

from bailiff.audit.log_positions import moment
from bailiff.client.job_filter import JobFilter, page
from bailiff.render.serializers.jobs import STATES, JobRow
from bailiff_console.auth.routes import SignedIn
from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import invalid, invalid_value

from .pools import Pools

router = APIRouter()
Text = Annotated[str, Query(max_length=256)]
Several = Annotated[list[Text] | None, Query(max_length=100)]
Time = Annotated[str | None, Query(max_length=64)]
Sort = Literal["queue", "submitted", "ended", "gpus", "job"]
SORTS = {"queue": "", "submitted": "submitted", "ended": "submitted", "gpus": "gpus", "job": "job"}
"""By the archive's names of them: jobs that have not ended are sorted by their submission instead of their end."""


class LiveJobPage(TypedDict):
    """A page of jobs. total: on all pages. next: pass as `cursor` for the next page; null: last page."""

    items: list[JobRow]
    total: int
    next: str | None


@router.get("/api/pools/{pool}/jobs", response_model=LiveJobPage, tags=["live"])
async def jobs(
    request: Request,
    principal: SignedIn,
    pool: str,
    state: Several = None,
    contains: Annotated[str, Query(description="Text in the name.", max_length=256)] = "",
    project: Annotated[str | None, Query(description="This project and its subprojects.", max_length=256)] = None,
    user: Several = None,
    priority_class: Several = None,
    node: Several = None,
    begin: Annotated[Time, Query(alias="from", description="Submitted at this time or later.")] = None,
    to: Annotated[Time, Query(description="Submitted before this time.")] = None,
    sort: Annotated[Sort, Query(description="queue: your own first.")] = "queue",
    order: Literal["asc", "desc"] = "asc",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str | None, Query(description="`next` of the page before.", max_length=400)] = None,
) -> JsonResponse:
    """Jobs as `bailiff list` shows them, with the parameters of the archive's list."""
    pools: Pools = request.app.state.pools
    found = pools.get(pool)
    states = [each for each in state or () if each in STATES]  # the archive's others are of jobs that ended long ago
    if state and not states:
        return JsonResponse({"items": [], "total": 0, "next": None})
    wanted = JobFilter(
        states=states,
        users=user or (),
        project=project,
        classes=priority_class or (),
        nodes=node or (),
        names=[f"*{_literally(contains)}*"] if contains else (),
        since=_micros("from", begin),
        until=_micros("to", to),
    )
    by = SORTS[sort]
    rows, total, following = page(
        found.state,
        found.state.now,
        wanted,
        [f"{'-' if order == 'desc' else ''}{by}"] if by else [],
        limit=limit,
        after=cursor,
        own=principal.name,
    )
    return JsonResponse({"items": rows, "total": total, "next": following}, headers={"cache-control": "no-store"})


def _literally(text: str) -> str:
    return "".join(f"[{each}]" if each in "*?[" else each for each in text)


def _micros(name: str, text: str | None) -> int | None:
    try:
        return None if text is None else moment(text).at(0).time
    except ValueError:
        raise invalid(invalid_value(name, text, "a time such as 2026-01-31T12:00:00Z")) from None
