"""Evictions: who, for whom, why, at what cost, and how they went."""

from datetime import datetime
from typing import Annotated, Any

import orjson
from asyncpg import Record
from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from bailiff_bus import people

from . import parameters as given
from .answers import Answer
from .asking import Ask, Listing, in_domain

router = APIRouter(tags=["evictions"])
STAGES = ("begun", *people.STAGES, "exited", "released", "stuck", "withdrawn", "ended", "resumed")


class EvictionItem(BaseModel):
    """A job, or some of its tasks, that had to leave."""

    decided_seq: int = Field(description="The record that decided it.")
    decided_at: datetime
    job: str
    submitted_seq: int | None
    attempt: int | None
    tasks: str | None = Field(description="Which of its tasks; empty: all.")
    project: str | None
    user: str | None
    priority_class: str | None
    cause: str | None = Field(examples=["preemption"])
    verb: str | None
    for_job: str | None = Field(description="Who needed the room.")
    for_class: str | None
    for_priority: int | None
    why: str | None
    gpus: int | None
    lost_gpu_hours: float | None
    cost: Any = Field(description="Level by level, as the decision has it.")
    explanation: Any = Field(description="As the decision has it.")
    stages: dict[str, datetime] = Field(description=f"When it came to each; a gang's by its last task: {', '.join(STAGES)}.")
    until_released_s: float | None
    until_resumed_s: float | None
    outcome: str | None


class EvictionPage(BaseModel):
    """A page of evictions."""

    items: list[EvictionItem]
    next: str | None


def _eviction(row: Record) -> dict[str, Any]:
    found = dict(row)
    times = {stage: found.pop(f"{stage}_at") for stage in STAGES}
    found["stages"] = {stage: at for stage, at in times.items() if at is not None}
    for name in ("cost", "explanation"):
        found[name] = orjson.Fragment(found[name]) if found[name] is not None else None
    return found


EVICTIONS = Listing(
    "evictions",
    f"""SELECT e.decided_seq, e.decided_at, e.job, e.submitted_seq, e.attempt, e.tasks, j.project, j.user_name AS "user",
        j.priority_class, e.cause, e.verb, e.for_job, e.for_class, e.for_priority, e.why, e.gpus,
        e.lost_gpu_ms / 3600000.0::float8 AS lost_gpu_hours, e.cost, e.explanation,
        extract(epoch FROM e.released_at - e.decided_at)::float8 AS until_released_s,
        extract(epoch FROM e.resumed_at - e.decided_at)::float8 AS until_resumed_s, e.outcome,
        {", ".join(f"e.{stage}_at" for stage in STAGES)}
        FROM evictions e LEFT JOIN jobs j USING (domain, job, submitted_seq)""",  # noqa: S608 - our own names
    {"decided_seq": "e.decided_seq", "job": "e.job"},
    _eviction,
)


@router.get("/domains/{domain}/evictions", response_model=EvictionPage, summary="Who had to leave, for whom, and what it cost")
async def evictions(
    ask: Annotated[Ask, Depends()], paging: given.Pages, job: given.Jobs = None,
    for_job: Annotated[list[given.Text] | None, given.several("Only for this job.", "serve-1")] = None,
    project: given.Projects = None, priority_class: given.Classes = None, user: given.Users = None, node: given.Nodes = None,
    reason: Annotated[list[given.Text] | None, given.several("Only for this cause.", "preemption")] = None,
    verb: given.Verbs = None,
    outcome: Annotated[list[given.Text] | None, given.several("Only with this end.", "preempted")] = None,
    from_: given.From = None, to: given.To = None,
) -> Answer:  # fmt: skip
    """The filters are about who had to leave; `from` and `to` are about when it was decided."""
    where = in_domain("e.domain")
    where.add("e.job = ANY(?)", job)
    where.add("e.for_job = ANY(?)", for_job)
    where.add("j.project = ANY(?)", project)
    where.add("j.priority_class = ANY(?)", priority_class)
    where.add("j.user_name = ANY(?)", user)
    where.add(
        """EXISTS (SELECT FROM attempts a WHERE a.domain = e.domain AND a.job = e.job AND a.submitted_seq = e.submitted_seq
           AND a.attempt = e.attempt AND string_to_array(a.nodes, ', ') && ?::text[])""",
        node,
    )
    where.add("e.cause = ANY(?)", reason)
    where.add("e.verb = ANY(?)", verb)
    where.add("e.outcome = ANY(?)", outcome)
    where.add("e.decided_at >= ?", from_)
    where.add("e.decided_at < ?", to)
    return await ask.page(EVICTIONS, where, paging)
