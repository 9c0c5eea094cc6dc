"""Jobs, attempts and the queue."""

from datetime import datetime
from typing import Annotated, Any, Literal

from asyncpg import Record
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from bailiff_core.explain import PENDING_RECORDS, pending_reason_in
from bailiff_core.explain.pending_records import CONCLUSIVE
from bailiff_core.records import AUDIT_TYPES
from bailiff_core.views import JobState, JobView, Moment, PendingReason
from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import not_found

from . import parameters as given
from .evictions import EVICTIONS, EvictionItem
from .query import Listing, PoolQuery, Reading, in_pool

router = APIRouter(tags=["jobs"])
PoolQueryParam = Annotated[PoolQuery, Depends()]


StateFilter = Literal[JobState, "evicted", "timed-out"]


class ArchivedJob(JobView):
    """A submission of a job, and how it ended."""

    first_started_at: Moment | None
    waited_s: Annotated[float | None, Field(description="From submission to first start.")]
    ended_seq: int | None
    outcome: Annotated[
        str | None, Field(description="succeeded, failed, cancelled, evicted or timed-out; the state of the last two is failed.")
    ]
    reason: Annotated[str | None, Field(description="Reason of the outcome.")]


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
    work_lost_gpu_ms: int | None = Field(description="Work since its last checkpoint; null: nothing was requeued.")
    restart_gpu_ms: int | None = Field(description="What its restart costs: as the policy assumes, or as measured.")


class JobHistory(ArchivedJob, PendingReason):
    """A job with its attempts and evictions."""

    attempts: list[AttemptItem]
    evictions: list[EvictionItem]


class QueuedJob(JobView, PendingReason):
    """A job without an allocation: pending, paused or reserved."""


class JobPage(BaseModel):
    """A page of jobs."""

    items: list[ArchivedJob]
    next: str | None = Field(description="Pass as `cursor` for the next page; null: last page.")


class AttemptPage(BaseModel):
    """A page of attempts."""

    items: list[AttemptItem]
    next: str | None


class QueuePage(BaseModel):
    """A page of the queue."""

    items: list[QueuedJob]
    next: str | None


VIEW = """j.job, j.submitted_seq, coalesce(j.project, '') AS project, coalesce(j.user_name, '') AS "user",
    coalesce(j.user_verified, false) AS user_verified, coalesce(j.priority_class, '') AS priority_class,
    coalesce(j.tasks, 0) AS tasks, coalesce(j.gpu_milli, 0) / 1000.0::float8 AS gpus, j.state,
    coalesce(j.attempt, 0) AS attempt, j.submitted_at, j.ended_at"""
JOB = f"""{VIEW}, j.first_started_at, extract(epoch FROM j.first_started_at - j.submitted_at)::float8 AS waited_s, j.ended_seq,
    j.outcome, j.reason"""
SORTED_BY = {
    "submitted": {"submitted_seq": "j.submitted_seq", "job": "j.job"},
    "ended": {"by_end": f"coalesce(j.ended_seq, {given.LARGEST})", "submitted_seq": "j.submitted_seq", "job": "j.job"},
    "gpus": {"by_gpus": "coalesce(j.gpu_milli, 0)", "submitted_seq": "j.submitted_seq", "job": "j.job"},
    "job": {"job": "j.job", "submitted_seq": "j.submitted_seq"},
}


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
       l.work_gpu_ms::bigint AS work_lost_gpu_ms, l.restart_gpu_ms::bigint AS restart_gpu_ms
       FROM attempts a JOIN jobs j USING (pool, job, submitted_seq)
       LEFT JOIN attempt_loss l ON (l.pool, l.job, l.submitted_seq, l.attempt) = (a.pool, a.job, a.submitted_seq, a.attempt)""",
    {"submitted_seq": "a.submitted_seq", "attempt": "a.attempt", "job": "a.job"},
    _attempt,
)
SAYS_WHY, OF_THE_STATE = (
    ", ".join(f"'{name}'" for name in names) for names in ([kind.NAME for kind in PENDING_RECORDS], CONCLUSIVE)
)
PENDING = f"""LEFT JOIN LATERAL (SELECT r.seq, r.time, r.type, r.value FROM records r WHERE r.pool = j.pool AND r.job = j.job
    AND r.seq > j.submitted_seq AND split_part(r.type, '.', 1) IN ({SAYS_WHY})
    AND (r.type NOT LIKE 'PreemptionRefused.%' OR convert_from(r.value, 'UTF8')::json->>'reason' IN ({OF_THE_STATE}))
    ORDER BY r.seq DESC LIMIT 1) w ON true"""  # noqa: S608 - our own names


def _pending_reason(seq: int | None, time: datetime | None, name: str | None, value: bytes | None) -> dict[str, Any]:
    kind = AUDIT_TYPES.get(f"bailiff.audit.{name}")
    found = pending_reason_in(kind.model_validate_json(value)) if kind is not None and value is not None else None
    return {"pending_reason": found[1] if found is not None else None, "pending_reason_seq": seq, "pending_reason_at": time}


def _queued(row: Record) -> dict[str, Any]:
    found = dict(row)
    return found | _pending_reason(*(found.pop(name) for name in ("pending_seq", "pending_at", "pending_type", "pending_record")))


QUEUE = Listing(
    "queue",
    f"""SELECT {VIEW}, w.seq AS pending_seq, w.time AS pending_at, w.type AS pending_type, w.value AS pending_record
        FROM jobs j {PENDING}""",  # noqa: S608 - our own names
    {"submitted_seq": "j.submitted_seq", "job": "j.job"},
    _queued,
    "asc",
)


@router.get("/pools/{pool}/jobs", response_model=JobPage, summary="Jobs")
async def jobs(
    query: PoolQueryParam,
    paging: given.Pages,
    job: given.Jobs = None,
    project: given.Projects = None,
    priority_class: given.Classes = None,
    user: given.Users = None,
    node: given.Nodes = None,
    state: Annotated[list[StateFilter] | None, given.several("Only in this state now, or with this outcome.", "running")] = None,
    outcome: Annotated[list[given.Text] | None, given.several("Only with this outcome.", "failed")] = None,
    reason: Annotated[list[given.Text] | None, given.several("Only ended for this reason.", "")] = None,
    contains: Annotated[given.Text | None, Query(description="Only jobs whose name contains this.", examples=["train"])] = None,
    sort: Annotated[Literal["submitted", "ended", "gpus", "job"], Query(description="Not ended: newest.")] = "submitted",
    from_: given.From = None,
    to: given.To = None,
) -> JsonResponse:
    """Submissions, newest first unless sorted otherwise. `from` and `to` apply to the submission time."""
    where = in_pool("j.pool")
    where.add("j.job = ANY(?)", job)
    where.add("position(? IN j.job) > 0", contains)
    where.add("j.project = ANY(?)", project)
    where.add("j.priority_class = ANY(?)", priority_class)
    where.add("j.user_name = ANY(?)", user)
    where.add("(j.state = ANY(?) OR j.outcome = ANY(?))", state)
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


@router.get("/pools/{pool}/jobs/{job}", response_model=JobHistory, summary="One job, with its attempts and evictions")
async def job_history(query: PoolQueryParam, job: given.JobName, submitted_seq: given.Submission = None) -> JsonResponse:
    """The newest submission of this name, or the one given by `submitted_seq`."""
    async with query.reading() as reading:
        row = await submission(reading, job, submitted_seq)
        found = dict(row)
        key = (reading.pool["id"], job, row["submitted_seq"])
        of_job = "WHERE {0}.pool = $1 AND {0}.job = $2 AND {0}.submitted_seq = $3 ORDER BY {1}"
        attempts = await reading.fetch(f"{ATTEMPTS.select} {of_job.format('a', 'a.attempt')}", *key)
        evictions = await reading.fetch(f"{EVICTIONS.select} {of_job.format('e', 'e.decided_seq')}", *key)
        (pending,) = await reading.fetch(
            f"SELECT w.seq, w.time, w.type, w.value FROM jobs j {PENDING} {of_job.format('j', 'j.job')}",  # noqa: S608 - ours
            *key,
        )
        found |= _pending_reason(*pending) if row["state"] in ("pending", "reserved") else _pending_reason(None, None, None, None)
        found["attempts"] = [ATTEMPTS.shape(each) for each in attempts]
        found["evictions"] = [EVICTIONS.shape(each) for each in evictions]
        return reading.answer(found)


async def submission(reading: Reading, job: str, seq: int | None) -> Record:
    """The job's row. Raises `NotFound`."""
    rows = await reading.fetch(
        f"SELECT {JOB} FROM jobs j WHERE j.pool = $1 AND j.job = $2 AND ($3::bigint IS NULL OR j.submitted_seq = $3)"  # noqa: S608
        " ORDER BY j.submitted_seq DESC LIMIT 1",
        reading.pool["id"],
        job,
        seq,
    )
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
    query: PoolQueryParam,
    paging: given.Pages,
    job: given.Jobs = None,
    project: given.Projects = None,
    priority_class: given.Classes = None,
    user: given.Users = None,
    node: given.Nodes = None,
    action: given.Actions = None,
    outcome: Annotated[list[given.Text] | None, given.several("Only with this outcome.", "preempted")] = None,
    reason: given.Reasons = None,
    from_: given.From = None,
    to: given.To = None,
) -> JsonResponse:
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
    query: PoolQueryParam,
    paging: given.Pages,
    project: given.Projects = None,
    priority_class: given.Classes = None,
    user: given.Users = None,
) -> JsonResponse:
    """Pending, paused and reserved jobs, in submission order, with the pending reason."""
    where = in_pool("j.pool")
    where.plain("j.ended_seq IS NULL AND j.state IN ('pending', 'paused', 'reserved')")
    where.add("j.project = ANY(?)", project)
    where.add("j.priority_class = ANY(?)", priority_class)
    where.add("j.user_name = ANY(?)", user)
    return await query.page(QUEUE, where, paging)
