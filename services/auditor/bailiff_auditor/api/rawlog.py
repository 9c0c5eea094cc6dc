"""The bytes of the log, and its seals: all that is needed to check everything else."""

from typing import Annotated, Any

import orjson
from asyncpg import Record
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from bailiff_bus.archive import unpacked
from bailiff_bus.messageline import as_line

from . import parameters as given
from .answers import Answer
from .asking import Ask, Listing, Reading, Where
from .problems import bad
from .waiting import until_archived

router = APIRouter(tags=["records"])
Asked = Annotated[Ask, Depends()]


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


async def _raw(reading: Reading, from_offset: int, limit: int) -> list[Record]:
    """An offset is at least its record's seq, and beyond it by at most as many messages as are no records."""
    row = reading.domain
    others = max(0, row["head_offset"] - (row["next_seq"] - 1))
    rows: list[Record] = await reading.fetch(RAW, row["id"], max(0, from_offset - others), from_offset, limit)
    return rows


def _seal(row: Record) -> dict[str, Any]:
    return {"offset": row["offset"], "kind": row["kind"], "data": orjson.Fragment(row["data"])}


def _listing(tables: dict[str, str]) -> Listing:
    parts = [
        f"SELECT domain, \"offset\", '{kind}' AS kind, data FROM {table} WHERE data IS NOT NULL"  # noqa: S608 - our own names
        for table, kind in tables.items()
    ]
    select = f'SELECT s."offset", s.kind, s.data FROM ({" UNION ALL ".join(parts)}) s'  # noqa: S608 - our own names
    return Listing("seals", select, {"offset": 's."offset"'}, _seal)


SEALS = _listing({"seals": "LogSealed", "sealing_keys": "SealingKey"})
ALL_SEALS = _listing(
    {"seals": "LogSealed", "sealing_keys": "SealingKey", "branch_seals": "LogSealed", "branches": "SealsSetAside"}
)


@router.get("/domains/{domain}/seals", response_model=SealPage, summary="Seals")
async def seals(ask: Asked, paging: given.Pages) -> Answer:
    """The seals of the log and the keys that made them, as they were published, and what was set aside after an accepted loss."""
    async with ask.reading() as reading:
        branched = await reading.connection.fetchval("SELECT to_regclass('branches') IS NOT NULL")
        where = Where(reading.domain["id"])
        where.plain("s.domain = $1")
        return await reading.page(ALL_SEALS if branched else SEALS, where, paging, ask.fingerprint)
