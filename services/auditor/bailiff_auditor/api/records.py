"""Records of the log: lists with filters, single records, decisions."""

from datetime import datetime
from typing import Annotated, Any

import orjson
from asyncpg import Record
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from bailiff_log.archive import unpack_headers
from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import not_found

from . import parameters as given
from .query import Listing, PoolQuery, Where, in_pool

router = APIRouter(tags=["records"])
PoolQueryParam = Annotated[PoolQuery, Depends()]
IMMUTABLE = {"cache-control": "private, max-age=31536000, immutable"}


class RecordItem(BaseModel):
    """A record of the audit log."""

    pool: str
    seq: int
    time: datetime
    type: str = Field(description="As in the event reference.", examples=["JobPlaced"])
    kind: str = Field(description="`fact` or `decision`.")
    cycle: int
    epoch: int
    job: str | None = Field(description="The record's main job.")
    actor: str | None = Field(description="The actor (an opaque id).")
    actor_verified: bool | None = Field(description="With `actor`: whether it is known that the request is theirs.")
    hash: str = Field(description="SHA-256 of the chain.")
    data: Any = Field(description="The payload, as in the event reference; fields with default values are omitted.")


class RecordPage(BaseModel):
    """A page of records."""

    items: list[RecordItem]
    next: str | None


class RecordDetails(RecordItem):
    """A record with its Kafka attributes."""

    offset: int
    appended_at: int = Field(description="By the broker's clock, µs UTC.")
    headers: list[Any] = Field(description="Name and value of each, in order.")


COLUMNS = """d.name AS pool, r.seq, r.time, split_part(r.type, '.', 1) AS type,
    CASE WHEN r.decision THEN 'decision' ELSE 'fact' END AS kind, r.cycle,
    r.epoch, r.job, r.actor, actor_verified(r.actor, r.headers) AS actor_verified, r.hash, r.value"""


def record_item(row: Record) -> dict[str, Any]:
    """A row as JSON."""
    found = dict(row)
    found["hash"] = found["hash"].hex()
    found["data"] = orjson.Fragment(found.pop("value"))
    return found


FROM = "FROM records r JOIN pools d ON d.id = r.pool"
RECORDS = Listing("records", f"SELECT {COLUMNS} {FROM}", {"seq": "r.seq"}, record_item)
ABOUT_JOBS = """(r.job = ANY(?) OR r.seq IN (SELECT e.decided_seq FROM evictions e WHERE e.pool = r.pool AND e.job = ANY(?)))"""
OF_JOB = """EXISTS (SELECT FROM jobs j WHERE j.pool = r.pool AND j.job = r.job AND j.submitted_seq <= r.seq
    AND (j.ended_seq IS NULL OR j.ended_seq >= r.seq) AND {})"""


def narrow(
    where: Where,
    job: list[str] | None,
    project: list[str] | None,
    priority_class: list[str] | None = None,
    user: list[str] | None = None,
    type_: list[str] | None = None,
) -> None:
    """Add the filters shared by record queries."""
    where.add(ABOUT_JOBS, job)
    where.add(OF_JOB.format("j.project = ANY(?)"), project)
    where.add(OF_JOB.format("j.priority_class = ANY(?)"), priority_class)
    where.add(OF_JOB.format("j.user_name = ANY(?)"), user)
    where.add("split_part(r.type, '.', 1) = ANY(?)", type_)


ACTION = """coalesce(convert_from(r.value, 'UTF8')::json->>'action', CASE WHEN r.type LIKE 'Preemption%' THEN 'preempt'
    WHEN r.type LIKE 'JobPlaced.%' OR r.type LIKE 'JobGrown.%' THEN 'allocate' END)"""  # omitted fields have their default
FromSeq = Annotated[int | None, Query(description="At or after this record.", ge=0, le=given.LARGEST)]
ToSeq = Annotated[int | None, Query(description="Before this record.", ge=0, le=given.LARGEST)]


@router.get("/pools/{pool}/records", response_model=RecordPage, summary="Records")
async def records(
    query: PoolQueryParam,
    paging: given.Pages,
    from_seq: FromSeq = None,
    to_seq: ToSeq = None,
    type_: given.Types = None,
    job: given.Jobs = None,
    project: given.Projects = None,
    from_: given.From = None,
    to: given.To = None,
) -> JsonResponse:
    """Facts and decisions in the order of the log."""
    where = in_pool("r.pool")
    where.add("r.seq >= ?", from_seq)
    where.add("r.seq < ?", to_seq)
    narrow(where, job, project, type_=type_)
    where.add("r.time >= ?", from_)
    where.add("r.time < ?", to)
    return await query.page(RECORDS, where, paging)


@router.get("/pools/{pool}/records/{seq}", response_model=RecordDetails, summary="One record")
async def record(query: PoolQueryParam, seq: given.SeqPath) -> JsonResponse:
    """Immutable: cacheable forever."""
    return await _details(query, seq, only_decisions=False)


@router.get("/pools/{pool}/decisions", response_model=RecordPage, summary="Decisions")
async def decisions(
    query: PoolQueryParam,
    paging: given.Pages,
    type_: given.Types = None,
    job: given.Jobs = None,
    project: given.Projects = None,
    priority_class: given.Classes = None,
    user: given.Users = None,
    node: given.Nodes = None,
    action: given.Actions = None,
    reason: given.Reasons = None,
    from_: given.From = None,
    to: given.To = None,
) -> JsonResponse:
    """Decisions. `node`: where the job was placed at that time."""
    where = in_pool("r.pool")
    where.plain("r.decision")
    narrow(where, job, project, priority_class, user, type_)
    where.add(f"{ACTION} = ANY(?)", action)
    where.add(
        "coalesce(convert_from(r.value, 'UTF8')::json->>'cause', convert_from(r.value, 'UTF8')::json->>'reason') = ANY(?)", reason
    )
    where.add(
        """EXISTS (SELECT FROM attempts a WHERE a.pool = r.pool AND a.job = r.job AND a.placed_seq <= r.seq
           AND (a.ended_seq IS NULL OR a.ended_seq >= r.seq) AND string_to_array(a.nodes, ', ') && ?::text[])""",
        node,
    )
    where.add("r.time >= ?", from_)
    where.add("r.time < ?", to)
    return await query.page(RECORDS, where, paging)


@router.get("/pools/{pool}/decisions/{seq}", response_model=RecordDetails, summary="One decision")
async def decision(query: PoolQueryParam, seq: given.SeqPath) -> JsonResponse:
    """As `/records/{seq}`, for decisions only."""
    return await _details(query, seq, only_decisions=True)


def not_archived(pool: str, seq: int, next_seq: int) -> Exception:
    """The answer for a record that is not in the archive."""
    return not_found(f"no record {seq} in the archive of {pool}: records before {next_seq} are archived")


async def _details(query: PoolQuery, seq: int, *, only_decisions: bool) -> JsonResponse:
    async with query.reading() as reading:
        rows = await reading.fetch(
            f'SELECT {COLUMNS}, r."offset", r.appended_at, r.headers {FROM} WHERE r.pool = $1 AND r.seq = $2',
            reading.pool["id"],
            seq,
        )
        if not rows:
            raise not_archived(query.name, seq, reading.pool["next_seq"])
        if only_decisions and rows[0]["kind"] != "decision":
            raise not_found(f"record {seq} of {query.name} is not a decision but the fact {rows[0]['type']}")
        found = record_item(rows[0])
        found["headers"] = [[name, value.decode(errors="replace")] for name, value in unpack_headers(rows[0]["headers"])]
        return JsonResponse(found, headers={**IMMUTABLE, "etag": f'"{found["hash"]}"'})
