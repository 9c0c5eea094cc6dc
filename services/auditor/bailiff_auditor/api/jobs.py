"""Jobs, attempts and the queue."""

from datetime import datetime
from typing import Annotated, Any, Literal

import orjson
from asyncpg import Record
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import not_found

from . import parameters as given
from .evictions import EVICTIONS, EvictionItem
from .query import Listing, PoolQuery, Reading, in_pool

router = APIRouter(tags=["jobs"])
PoolQueryParam = Annotated[PoolQuery, Depends()]
State = Literal[
    "waiting", "pending", "paused", "reserved", "starting", "running", "evicting", "succeeded", "failed", "cancelled", "evicted",
    "timed-out",
]  # fmt: skip


class JobItem(BaseModel):
    """A submission of a job."""

    job: str
    submitted_seq: int = Field(description="The record that accepted it. A job name can be submitted again later.")
    project: str | None
    user: str | None = Field(description="An opaque id.")
    user_verified: bool | None = Field(
        description="Whether the user signed the submission, or whoever signed it vouched for the user; as recorded."
    )
    priority_class: str | None
    tasks: int | None
    gpus: float | None
    state: str
    attempt: int | None
    submitted_at: datetime
    first_started_at: datetime | None
    waited_s: float | None = Field(description="From submission to first start.")
    ended_at: datetime | None
    ended_seq: int | None
    outcome: str | None
    reason: str | None = Field(description="Reason of the outcome.")


class AttemptItem(BaseModel):
    """An attempt: a placement of a job and its outcome."""

    job: str
    submitted_seq: int
    attempt: int
    action: str | None = Field(description="The action that placed it.")
    nodes: list[str]
    placed_seq: int | None
    placed_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    ended_seq: int | None
    ran_s: float | None
    outcome: str | None
    cause: str | None
    lost_gpu_hours: float | None


class JobDetails(JobItem):
    """A job with its attempts and evictions."""

    pending_reason: str | None = Field(description="The newest recorded reason why the job is pending, while it is pending.")
    pending_reason_at: datetime | None = Field(description="When that reason was recorded.")
    attempts: list[AttemptItem]
    evictions: list[EvictionItem]


class QueueItem(BaseModel):
    """A job without an allocation: pending, paused or reserved."""

    job: str
    submitted_seq: int
    project: str | None
    user: str | None
    user_verified: bool | None
    priority_class: str | None
    tasks: int | None
    gpus: float | None
    state: str
    submitted_at: datetime
    reason: str | None = Field(description="Why it is pending, from the newest record that says so.")
    reason_seq: int | None
    reason_at: datetime | None


class JobPage(BaseModel):
    """A page of jobs."""

    items: list[JobItem]
    next: str | None = Field(description="Pass as `cursor` for the next page; null: last page.")


class AttemptPage(BaseModel):
    """A page of attempts."""

    items: list[AttemptItem]
    next: str | None


class QueuePage(BaseModel):
    """A page of the queue."""

    items: list[QueueItem]
    next: str | None


JOB = """j.job, j.submitted_seq, j.project, j.user_name AS "user", j.user_verified, j.priority_class, j.tasks,
    j.gpu_milli / 1000.0::float8 AS gpus, j.state, j.attempt, j.submitted_at, j.first_started_at,
    extract(epoch FROM j.first_started_at - j.submitted_at)::float8 AS waited_s, j.ended_at, j.ended_seq, j.outcome, j.reason"""
SORTED_BY = {
    "submitted": {"submitted_seq": "j.submitted_seq", "job": "j.job"},
    "ended": {
        "by_end": f"coalesce(j.ended_seq, {given.LARGEST})", "submitted_seq": "j.submitted_seq", "job": "j.job",
    },
    "gpus": {"by_gpus": "coalesce(j.gpu_milli, 0)", "submitted_seq": "j.submitted_seq", "job": "j.job"},
    "job": {"job": "j.job", "submitted_seq": "j.submitted_seq"},
}  # fmt: skip


def _sorted_by(name: str) -> Listing:
    """The list of jobs in this order. Keys that are no columns of the item are selected beside them, for the cursor."""
    key = SORTED_BY[name]
    beside = "".join(f", {sql} AS {column}" for column, sql in key.items() if column.startswith("by_"))
    return Listing(f"jobs by {name}", f"SELECT {JOB}{beside} FROM jobs j", key, _without_keys)  # noqa: S608 - ours


def _without_keys(row: Record) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("by_")}


JOBS = {name: _sorted_by(name) for name in SORTED_BY}


def _attempt(row: Record) -> dict[str, Any]:
    return {**row, "nodes": row["nodes"].split(", ") if row["nodes"] else []}


ATTEMPTS = Listing(
    "attempts",
    """SELECT a.job, a.submitted_seq, a.attempt, a.action, a.nodes, a.placed_seq, a.placed_at, a.started_at, a.ended_at,
       a.ended_seq, extract(epoch FROM a.ended_at - a.started_at)::float8 AS ran_s, a.outcome, a.cause,
       a.lost_gpu_ms / 3600000.0::float8 AS lost_gpu_hours
       FROM attempts a JOIN jobs j USING (pool, job, submitted_seq)""",
    {"submitted_seq": "a.submitted_seq", "attempt": "a.attempt", "job": "a.job"},
    _attempt,
)
PENDING = """LEFT JOIN LATERAL (SELECT r.seq, r.time, r.value FROM records r WHERE r.pool = j.pool AND r.job = j.job
    AND r.seq > j.submitted_seq AND r.type LIKE 'JobPending.%' ORDER BY r.seq DESC LIMIT 1) w ON true"""


def _queued(row: Record) -> dict[str, Any]:
    found = dict(row)
    value = found.pop("value")
    return {**found, "reason": orjson.loads(value).get("reason") if value is not None else None}


QUEUE = Listing(
    "queue",
    f"""SELECT j.job, j.submitted_seq, j.project, j.user_name AS "user", j.user_verified, j.priority_class, j.tasks,
        j.gpu_milli / 1000.0::float8 AS gpus, j.state, j.submitted_at, w.seq AS reason_seq, w.time AS reason_at, w.value
        FROM jobs j {PENDING}""",  # noqa: S608 - our own names
    {"submitted_seq": "j.submitted_seq", "job": "j.job"},
    _queued,
    "asc",
)


@router.get("/pools/{pool}/jobs", response_model=JobPage, summary="Jobs")
async def jobs(
    query: PoolQueryParam, paging: given.Pages, job: given.Jobs = None, project: given.Projects = None,
    priority_class: given.Classes = None,
    user: given.Users = None, node: given.Nodes = None,
    state: Annotated[list[State] | None, given.several("Only in this state now.", "running")] = None,
    outcome: Annotated[list[given.Text] | None, given.several("Only with this outcome.", "failed")] = None,
    reason: Annotated[list[given.Text] | None, given.several("Only ended for this reason.", "")] = None,
    contains: Annotated[given.Text | None, Query(description="Only jobs whose name contains this.", examples=["train"])] = None,
    sort: Annotated[Literal["submitted", "ended", "gpus", "job"], Query(description="Not ended: newest.")] = "submitted",
    from_: given.From = None, to: given.To = None,
) -> JsonResponse:  # fmt: skip
    """Submissions, newest first unless sorted otherwise. `from` and `to` apply to the submission time."""
    where = in_pool("j.pool")
    where.add("j.job = ANY(?)", job)
    where.add("position(? IN j.job) > 0", contains)
    where.add("j.project = ANY(?)", project)
    where.add("j.priority_class = ANY(?)", priority_class)
    where.add("j.user_name = ANY(?)", user)
    where.add("j.state = ANY(?)", state)
    where.add("j.outcome = ANY(?)", outcome)
    where.add("j.reason = ANY(?)", reason)
    where.add(
        """EXISTS (SELECT FROM attempts a WHERE a.pool = j.pool AND a.job = j.job AND a.submitted_seq = j.submitted_seq
           AND string_to_array(a.nodes, ', ') && ?::text[])""",
        node,
    )
    where.add("j.submitted_at >= ?", from_)
    where.add("j.submitted_at < ?", to)
    return await query.page(JOBS[sort], where, paging)


@router.get("/pools/{pool}/jobs/{job}", response_model=JobDetails, summary="One job, with its attempts and evictions")
async def job_details(
    query: PoolQueryParam, job: given.JobName,
    submitted_seq: given.Submission = None,
) -> JsonResponse:  # fmt: skip
    """The newest submission of this name, or the one given by `submitted_seq`."""
    async with query.reading() as reading:
        row = await submission(reading, job, submitted_seq)
        found = dict(row)
        key = (reading.pool["id"], job, row["submitted_seq"])
        of_job = "WHERE {0}.pool = $1 AND {0}.job = $2 AND {0}.submitted_seq = $3 ORDER BY {1}"
        attempts = await reading.fetch(f"{ATTEMPTS.select} {of_job.format('a', 'a.attempt')}", *key)
        evictions = await reading.fetch(f"{EVICTIONS.select} {of_job.format('e', 'e.decided_seq')}", *key)
        pending = await reading.fetch(f"SELECT w.value, w.time FROM jobs j {PENDING} {of_job.format('j', 'j.job')}", *key)  # noqa: S608 - ours
        value = pending[0]["value"] if row["state"] in ("pending", "reserved") else None
        found["pending_reason"] = orjson.loads(value).get("reason") if value is not None else None
        found["pending_reason_at"] = pending[0]["time"] if value is not None else None
        found["attempts"] = [ATTEMPTS.shape(each) for each in attempts]
        found["evictions"] = [EVICTIONS.shape(each) for each in evictions]
        return reading.answer(found)


async def submission(reading: Reading, job: str, seq: int | None) -> Record:
    """The job's row. Raises `NotFound`."""
    rows = await reading.fetch(
        f"SELECT {JOB} FROM jobs j WHERE j.pool = $1 AND j.job = $2 AND ($3::bigint IS NULL OR j.submitted_seq = $3)"  # noqa: S608
        " ORDER BY j.submitted_seq DESC LIMIT 1",
        reading.pool["id"], job, seq,
    )  # fmt: skip
    if not rows:
        at = f" submitted by record {seq}" if seq is not None else ""
        raise not_found(f"no job {job!r}{at} in the archive of {reading.pool['name']}")
    return rows[0]


@router.get("/pools/{pool}/jobs/{job}/attempts", response_model=AttemptPage, summary="Attempts of one job")
async def attempts_of(query: PoolQueryParam, job: given.JobName, paging: given.Pages) -> JsonResponse:
    """Attempts of all submissions of this name."""
    where = in_pool("a.pool")
    where.add("a.job = ?", job)
    return await query.page(ATTEMPTS, where, paging)


@router.get("/pools/{pool}/attempts", response_model=AttemptPage, summary="Attempts")
async def attempts(
    query: PoolQueryParam, paging: given.Pages, job: given.Jobs = None, project: given.Projects = None,
    priority_class: given.Classes = None,
    user: given.Users = None, node: given.Nodes = None, action: given.Actions = None,
    outcome: Annotated[list[given.Text] | None, given.several("Only with this outcome.", "preempted")] = None,
    reason: given.Reasons = None,
    from_: given.From = None, to: given.To = None,
) -> JsonResponse:  # fmt: skip
    """Attempts of jobs. `from` and `to` apply to the placement time."""
    where = in_pool("a.pool")
    where.add("a.job = ANY(?)", job)
    where.add("j.project = ANY(?)", project)
    where.add("j.priority_class = ANY(?)", priority_class)
    where.add("j.user_name = ANY(?)", user)
    where.add("string_to_array(a.nodes, ', ') && ?::text[]", node)
    where.add("a.action = ANY(?)", action)
    where.add("a.outcome = ANY(?)", outcome)
    where.add("a.cause = ANY(?)", reason)
    where.add("a.placed_at >= ?", from_)
    where.add("a.placed_at < ?", to)
    return await query.page(ATTEMPTS, where, paging)


@router.get("/pools/{pool}/queue", response_model=QueuePage, summary="Queue")
async def queue(
    query: PoolQueryParam, paging: given.Pages, project: given.Projects = None, priority_class: given.Classes = None,
    user: given.Users = None,
) -> JsonResponse:  # fmt: skip
    """Pending, paused and reserved jobs, in submission order, with the pending reason."""
    where = in_pool("j.pool")
    where.plain("j.ended_seq IS NULL AND j.state IN ('pending', 'paused', 'reserved')")
    where.add("j.project = ANY(?)", project)
    where.add("j.priority_class = ANY(?)", priority_class)
    where.add("j.user_name = ANY(?)", user)
    return await query.page(QUEUE, where, paging)
