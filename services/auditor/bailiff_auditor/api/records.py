"""Records as they are: in the log's order, about something, with their bytes; decisions; seals."""

from datetime import datetime
from typing import Annotated, Any

import orjson
from asyncpg import Record
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from bailiff_bus.archive import unpacked
from bailiff_bus.messageline import as_line

from . import parameters as given
from .answers import Answer
from .asking import Ask, Listing, Where, in_domain
from .jobs import submission
from .problems import Missing, bad
from .waiting import until_archived

router = APIRouter(tags=["records"])
Asked = Annotated[Ask, Depends()]
FOR_EVER = {"cache-control": "private, max-age=31536000, immutable"}
NODE_TYPES = "(r.type LIKE 'Node%' OR r.type LIKE 'Device%' OR r.type LIKE 'Drain%')"  # as the index has it


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
    data: Any = Field(description="What it says; the fields of each type are in the event reference.")


class RecordPage(BaseModel):
    """A page of records."""

    items: list[RecordItem]
    next: str | None


class RecordWhole(RecordItem):
    """A record with its attributes as they are in Kafka."""

    offset: int
    appended_at: int = Field(description="By the broker's clock, µs UTC.")
    headers: list[Any] = Field(description="Name and text of each, in their order.")


class RawLog(BaseModel):
    """A piece of the partition: records, and messages that do not continue the chain."""

    domain: str
    partition: int
    identity: str
    end: int = Field(description="The offset behind the last message that is archived.")
    next_offset: int = Field(description="Where to go on.")
    messages: list[Any] = Field(description="As the lines of `bailiff audit export`: offset, time, headers, value.")


class SealItem(BaseModel):
    """A message of `bailiff.seals`."""

    offset: int
    kind: str = Field(description="`LogSealed` or `SealingKey`.")
    data: Any


class SealPage(BaseModel):
    """A page of seals."""

    items: list[SealItem]
    next: str | None


COLUMNS = """d.name AS domain, r.seq, r.time, r.type, CASE WHEN r.decision THEN 'decision' ELSE 'fact' END AS kind, r.turn,
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
    where.add("r.type = ANY(?)", type_)


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
    where.add("convert_from(r.value, 'UTF8')::json->>'verb' = ANY(?)", verb)
    where.add(
        "coalesce(convert_from(r.value, 'UTF8')::json->>'cause', convert_from(r.value, 'UTF8')::json->>'reason') = ANY(?)", reason
    )
    where.add(
        """EXISTS (SELECT FROM holds h WHERE h.domain = r.domain AND h.job = r.job AND h.node = ANY(?) AND h.from_seq <= r.seq
           AND (h.to_seq IS NULL OR h.to_seq >= r.seq))""",
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


@router.get(
    "/domains/{domain}/jobs/{job}/timeline", response_model=RecordPage, tags=["timelines"], summary="What happened to a job"
)
async def job_timeline(
    ask: Asked, job: given.JobName, paging: given.Pages,
    submitted_seq: given.Submission = None,
) -> Answer:  # fmt: skip
    """Every record about it, those that made it leave too."""
    async with ask.reading() as reading:
        row = await submission(reading, job, submitted_seq)
        where = Where(reading.domain["id"])
        where.plain("r.domain = $1")
        where.add(ABOUT_JOBS, [job])
        where.add("r.seq >= ?", row["submitted_seq"])
        where.add("r.seq <= ?", row["ended_seq"])
        return await reading.page(RECORDS, where, paging, ask.fingerprint)


@router.get(
    "/domains/{domain}/nodes/{node}/timeline", response_model=RecordPage, tags=["timelines"], summary="What happened on a node"
)
async def node_timeline(ask: Asked, node: given.NodeName, paging: given.Pages) -> Answer:
    """Records about the node and its GPUs, and those with which jobs came and went."""
    where = in_domain("r.domain")
    where.add(
        f"""r.seq IN (SELECT r.seq FROM records r WHERE r.domain = $1 AND {NODE_TYPES}
            AND convert_from(r.value, 'UTF8')::json->>'node' = ?
            UNION SELECT h.from_seq FROM holds h WHERE h.domain = $1 AND h.node = ?
            UNION SELECT h.to_seq FROM holds h WHERE h.domain = $1 AND h.node = ?)""",  # noqa: S608 - our own names
        node,
    )
    return await ask.page(RECORDS, where, paging)


@router.get(
    "/domains/{domain}/projects/{project}/timeline", response_model=RecordPage, tags=["timelines"],
    summary="What happened in a project",
)  # fmt: skip
async def project_timeline(
    ask: Asked, project: Annotated[str, given.Path(max_length=256, pattern=given.WITHOUT_NUL, examples=["research"])],
    paging: given.Pages, from_: given.From = None, to: given.To = None,
) -> Answer:  # fmt: skip
    """Records about jobs of the project."""
    where = in_domain("r.domain")
    where.add(OF_JOB.format("j.project = ?"), project)
    where.add("r.time >= ?", from_)
    where.add("r.time < ?", to)
    return await ask.page(RECORDS, where, paging)


RAW = """SELECT "offset", appended_at, headers, value FROM (
    (SELECT "offset", appended_at, headers, value FROM records
     WHERE domain = $1 AND seq >= $2 AND "offset" >= $3 ORDER BY seq LIMIT $4)
    UNION ALL (SELECT "offset", appended_at, headers, value FROM orphans
     WHERE domain = $1 AND "offset" >= $3 ORDER BY "offset" LIMIT $4)) found ORDER BY "offset" LIMIT $4"""


@router.get("/domains/{domain}/log", response_model=RawLog, summary="The bytes of the log")
async def log(
    ask: Asked,
    from_offset: Annotated[int, Query(description="From this Kafka offset on.", ge=0, le=given.LARGEST)] = 0,
    limit: Annotated[int, Query(description="At most so many messages.", ge=1, le=2000)] = 500,
    wait: Annotated[float, Query(description="Wait so many seconds where there is nothing yet.", ge=0, le=30)] = 0,
) -> Answer:  # fmt: skip
    """Every message of the partition, orphans too, byte for byte: chain, seals and replay can be checked from this alone."""
    news = ask.archive.news()
    async with ask.reading() as reading:
        row, rows = reading.domain, await _raw(reading, from_offset, limit)
    if not rows and wait and await until_archived(ask.request, news, wait):
        async with ask.reading() as reading:
            row, rows = reading.domain, await _raw(reading, from_offset, limit)
    end = row["next_offset"]
    if from_offset > end:
        raise bad("from_offset", from_offset, f"at most {end}, where the archive ends")
    messages = []
    for each in rows:
        try:
            headers = unpacked(each["headers"])
        except ValueError:
            headers = ()
        messages.append(as_line(each["offset"], each["appended_at"], headers, each["value"]))
    go_on = rows[-1]["offset"] + 1 if len(rows) == limit else end
    return Answer(
        {
            "domain": row["name"], "partition": row["partition"], "identity": row["identity"], "end": end, "next_offset": go_on,
            "messages": messages,
        },
        headers={"cache-control": "no-store"},
    )  # fmt: skip


async def _raw(reading: Any, from_offset: int, limit: int) -> list[Record]:
    """An offset is at least its record's seq, and beyond it by at most as many messages as are no records."""
    row = reading.domain
    others = max(0, row["head_offset"] - (row["next_seq"] - 1))
    rows: list[Record] = await reading.fetch(RAW, row["id"], max(0, from_offset - others), from_offset, limit)
    return rows


def _seal(row: Record) -> dict[str, Any]:
    return {"offset": row["offset"], "kind": row["kind"], "data": orjson.Fragment(row["data"])}


SEALS = Listing(
    "seals",
    """SELECT s."offset", s.kind, s.data FROM (SELECT domain, "offset", 'LogSealed' AS kind, data FROM seals
       UNION ALL SELECT domain, "offset", 'SealingKey', data FROM sealing_keys) s""",
    {"offset": 's."offset"'},
    _seal,
)


@router.get("/domains/{domain}/seals", response_model=SealPage, summary="Seals")
async def seals(ask: Asked, paging: given.Pages) -> Answer:
    """The seals of the log and the keys that made them, as they were published."""
    return await ask.page(SEALS, in_domain("s.domain"), paging)
