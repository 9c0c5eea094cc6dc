"""Records as they are: in the log's order, about something, with their bytes; decisions; seals."""

from datetime import datetime
from typing import Annotated, Any

import orjson
from asyncpg import Record
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from bailiff_bus.archive import unpacked

from . import parameters as given
from .answers import Answer
from .asking import Ask, Listing, Where, in_domain
from .problems import Missing

router = APIRouter(tags=["records"])
Asked = Annotated[Ask, Depends()]
FOR_EVER = {"cache-control": "private, max-age=31536000, immutable"}


class RecordItem(BaseModel):
    """A record of the audit log."""

    domain: str
    seq: int
    time: datetime
    type: str = Field(description="As in the event reference.", examples=["JobPlaced"])
    kind: str = Field(description="`fact` or `decision`.")
    turn: int
    epoch: int
    job: str | None = Field(description="The job that it is mainly about.")
    actor: str | None = Field(description="Who caused it, an opaque id.")
    hash: str = Field(description="SHA-256, the chain's.")
    data: Any = Field(description="What it says, as in the event reference; fields that have their default are left out.")


class RecordPage(BaseModel):
    """A page of records."""

    items: list[RecordItem]
    next: str | None


class RecordWhole(RecordItem):
    """A record with its attributes as they are in Kafka."""

    offset: int
    appended_at: int = Field(description="By the broker's clock, µs UTC.")
    headers: list[Any] = Field(description="Name and text of each, in their order.")


COLUMNS = """d.name AS domain, r.seq, r.time, split_part(r.type, '.', 1) AS type,
    CASE WHEN r.decision THEN 'decision' ELSE 'fact' END AS kind, r.turn,
    r.epoch, r.job, r.actor, r.hash, r.value"""


def told(row: Record) -> dict[str, Any]:
    """A record as it is told."""
    found = dict(row)
    found["hash"] = found["hash"].hex()
    found["data"] = orjson.Fragment(found.pop("value"))
    return found


FROM = "FROM records r JOIN domains d ON d.id = r.domain"
RECORDS = Listing("records", f"SELECT {COLUMNS} {FROM}", {"seq": "r.seq"}, told)
ABOUT_JOBS = (
    """(r.job = ANY(?) OR r.seq IN (SELECT e.decided_seq FROM evictions e WHERE e.domain = r.domain AND e.job = ANY(?)))"""
)
OF_JOB = """EXISTS (SELECT FROM jobs j WHERE j.domain = r.domain AND j.job = r.job AND j.submitted_seq <= r.seq
    AND (j.ended_seq IS NULL OR j.ended_seq >= r.seq) AND {})"""


def narrow(
    where: Where, job: list[str] | None, project: list[str] | None, priority_class: list[str] | None = None,
    user: list[str] | None = None, type_: list[str] | None = None,
) -> None:  # fmt: skip
    """Filters that questions about records share."""
    where.add(ABOUT_JOBS, job)
    where.add(OF_JOB.format("j.project = ANY(?)"), project)
    where.add(OF_JOB.format("j.priority_class = ANY(?)"), priority_class)
    where.add(OF_JOB.format("j.user_name = ANY(?)"), user)
    where.add("split_part(r.type, '.', 1) = ANY(?)", type_)


VERB = """coalesce(convert_from(r.value, 'UTF8')::json->>'verb', CASE WHEN r.type LIKE 'Preemption%' THEN 'preempt'
    WHEN r.type LIKE 'JobPlaced.%' OR r.type LIKE 'JobGrown.%' THEN 'allocate' END)"""  # what a record leaves out is its default
FromSeq = Annotated[int | None, Query(description="From this record on.", ge=0, le=given.LARGEST)]
ToSeq = Annotated[int | None, Query(description="Up to this record, not with it.", ge=0, le=given.LARGEST)]


@router.get("/domains/{domain}/records", response_model=RecordPage, summary="Records")
async def records(
    ask: Asked, paging: given.Pages, from_seq: FromSeq = None, to_seq: ToSeq = None,
    type_: given.Types = None,
    job: given.Jobs = None, project: given.Projects = None, from_: given.From = None, to: given.To = None,
) -> Answer:  # fmt: skip
    """Facts and decisions in the order of the log."""
    where = in_domain("r.domain")
    where.add("r.seq >= ?", from_seq)
    where.add("r.seq < ?", to_seq)
    narrow(where, job, project, type_=type_)
    where.add("r.time >= ?", from_)
    where.add("r.time < ?", to)
    return await ask.page(RECORDS, where, paging)


@router.get("/domains/{domain}/records/{seq}", response_model=RecordWhole, summary="One record, whole")
async def record(ask: Asked, seq: given.SeqPath) -> Answer:
    """It never changes: keep it for as long as you like."""
    return await _whole(ask, seq, only_decisions=False)


@router.get("/domains/{domain}/decisions", response_model=RecordPage, summary="Decisions")
async def decisions(
    ask: Asked, paging: given.Pages,
    type_: given.Types = None,
    job: given.Jobs = None, project: given.Projects = None, priority_class: given.Classes = None, user: given.Users = None,
    node: given.Nodes = None, verb: given.Verbs = None,
    reason: Annotated[list[given.Text] | None, given.several("Only with this cause or reason.", "expired")] = None,
    from_: given.From = None, to: given.To = None,
) -> Answer:  # fmt: skip
    """What was decided. `node`: where the job stood at that moment, or got its place."""
    where = in_domain("r.domain")
    where.plain("r.decision")
    narrow(where, job, project, priority_class, user, type_)
    where.add(f"{VERB} = ANY(?)", verb)
    where.add(
        "coalesce(convert_from(r.value, 'UTF8')::json->>'cause', convert_from(r.value, 'UTF8')::json->>'reason') = ANY(?)", reason
    )
    where.add(
        """EXISTS (SELECT FROM attempts a WHERE a.domain = r.domain AND a.job = r.job AND a.placed_seq <= r.seq
           AND (a.ended_seq IS NULL OR a.ended_seq >= r.seq) AND string_to_array(a.nodes, ', ') && ?::text[])""",
        node,
    )
    where.add("r.time >= ?", from_)
    where.add("r.time < ?", to)
    return await ask.page(RECORDS, where, paging)


@router.get("/domains/{domain}/decisions/{seq}", response_model=RecordWhole, summary="One decision, whole")
async def decision(ask: Asked, seq: given.SeqPath) -> Answer:
    """As `/records/{seq}`, for decisions only."""
    return await _whole(ask, seq, only_decisions=True)


async def _whole(ask: Ask, seq: int, *, only_decisions: bool) -> Answer:
    async with ask.reading() as reading:
        rows = await reading.fetch(
            f'SELECT {COLUMNS}, r."offset", r.appended_at, r.headers {FROM} WHERE r.domain = $1 AND r.seq = $2',
            reading.domain["id"], seq,
        )  # fmt: skip
        if not rows:
            raise Missing(f"{ask.name} has no record {seq}: archived are those before {reading.domain['next_seq']}")
        if only_decisions and rows[0]["kind"] != "decision":
            raise Missing(f"record {seq} of {ask.name} is no decision: it is the fact {rows[0]['type']}")
        found = told(rows[0])
        found["headers"] = [[name, value.decode(errors="replace")] for name, value in unpacked(rows[0]["headers"])]
        return Answer(found, headers={**FOR_EVER, "etag": f'"{found["hash"]}"'})
