"""Evictions: victim, preemptor, cause, cost, stages and outcome."""

from datetime import datetime
from typing import Annotated, Any

import orjson
from asyncpg import Record
from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from bailiff_core.model.proposal import Explanation
from bailiff_core.views import Gpus
from bailiff_log import read_model
from bailiff_service.json_response import JsonResponse

from . import parameters as given
from .query import Listing, PoolQuery, in_pool

router = APIRouter(tags=["evictions"])
STAGES = ("started", *read_model.STAGES, "exited", "released", "stuck", "cancelled", "ended", "resumed")


class EvictionItem(BaseModel):
    """An eviction of a job or of some of its tasks."""

    decided_seq: int = Field(description="The record that decided it.")
    decided_at: datetime
    job: str
    submitted_seq: int | None
    attempt: int | None
    tasks: str | None = Field(description="The evicted tasks; empty: all.")
    project: str | None
    user: str | None
    user_verified: bool | None
    priority_class: str | None
    cause: str | None = Field(examples=["preemption"])
    action: str | None
    for_job: str | None = Field(description="The preemptor.")
    for_class: str | None
    for_priority: int | None
    reason: str | None
    gpus: Gpus | None = Field(description="Of the evicted tasks; null: it has not ended.")
    work_lost_gpu_ms: int | None = Field(description="Work since its last checkpoint; null: it has not ended.")
    restart_gpu_ms: int | None = Field(description="What its restart costs: as the policy assumes, or as measured.")
    explanation: Explanation | None = Field(description="As in the decision.")
    stages: dict[str, datetime] = Field(description=f"Time of each stage, of a gang its last task's: {', '.join(STAGES)}.")
    until_released_s: float | None
    until_resumed_s: float | None
    outcome: str | None


class EvictionPage(BaseModel):
    """A page of evictions."""

    items: list[EvictionItem]
    next: str | None


def _eviction(row: Record) -> dict[str, Any]:
    item = dict(row)
    times = {stage: item.pop(f"{stage}_at") for stage in STAGES}
    item["stages"] = {stage: at for stage, at in times.items() if at is not None}
    item["explanation"] = orjson.Fragment(item["explanation"]) if item["explanation"] is not None else None
    return item


EVICTIONS = Listing(
    "evictions",
    f"""SELECT e.decided_seq, e.decided_at, e.job, e.submitted_seq, e.attempt, e.tasks, j.project, j.user_name AS "user",
        j.user_verified, j.priority_class, e.cause, e.action, e.for_job, e.for_class, e.for_priority, e.reason,
        l.gpu_milli / 1000.0::float8 AS gpus,
        l.work_gpu_ms AS work_lost_gpu_ms, l.restart_gpu_ms, e.explanation,
        extract(epoch FROM e.released_at - e.decided_at)::float8 AS until_released_s,
        extract(epoch FROM e.resumed_at - e.decided_at)::float8 AS until_resumed_s, e.outcome,
        {", ".join(f"e.{stage}_at" for stage in STAGES)}
        FROM evictions e LEFT JOIN jobs j USING (pool, job, submitted_seq) LEFT JOIN LATERAL eviction_loss(e) l ON true""",  # noqa: S608 - our own names
    {"decided_seq": "e.decided_seq", "job": "e.job"},
    _eviction,
)


@router.get("/pools/{pool}/evictions", response_model=EvictionPage, summary="Evictions")
async def evictions(
    query: Annotated[PoolQuery, Depends()],
    paging: given.Pages,
    job: given.Jobs = None,
    for_job: Annotated[list[given.Text] | None, given.several("Only for this job.", "serve-1")] = None,
    project: given.Projects = None,
    priority_class: given.Classes = None,
    user: given.Users = None,
    node: given.Nodes = None,
    reason: given.Reasons = None,
    action: given.Actions = None,
    outcome: Annotated[list[given.Text] | None, given.several("Only with this outcome.", "preempted")] = None,
    from_: given.From = None,
    to: given.To = None,
) -> JsonResponse:
    """Filters apply to the victim; `from` and `to` to the time of the decision."""
    where = in_pool("e.pool")
    where.add("e.job = ANY(?)", job)
    where.add("e.for_job = ANY(?)", for_job)
    where.add("j.project = ANY(?)", project)
    where.add("j.priority_class = ANY(?)", priority_class)
    where.add("j.user_name = ANY(?)", user)
    where.add(
        """EXISTS (SELECT FROM attempts a WHERE a.pool = e.pool AND a.job = e.job AND a.submitted_seq = e.submitted_seq
           AND a.attempt = e.attempt AND string_to_array(a.nodes, ', ') && ?::text[])""",
        node,
    )
    where.add("coalesce(e.cause, e.reason) = ANY(?)", reason)
    where.add("e.action = ANY(?)", action)
    where.add("e.outcome = ANY(?)", outcome)
    where.add("e.decided_at >= ?", from_)
    where.add("e.decided_at < ?", to)
    return await query.page(EVICTIONS, where, paging)
