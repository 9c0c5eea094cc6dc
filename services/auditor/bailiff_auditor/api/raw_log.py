"""The raw bytes of the log, its seals and their cosignatures: sufficient to verify everything else."""

from datetime import datetime
from typing import Annotated, Any

import orjson
from asyncpg import Record
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from bailiff_log.archive import unpack_headers
from bailiff_log.message_json import message_to_json
from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import not_found

from . import parameters as given
from .notifications import until_archived
from .problems import bad
from .query import Listing, PoolQuery, Reading, Where

router = APIRouter(tags=["records"])
GZIP = "application/gzip"
PoolQueryParam = Annotated[PoolQuery, Depends()]


class RawLog(BaseModel):
    """A range of the partition: records and orphans."""

    pool: str
    partition: int
    identity: str
    end_offset: int = Field(description="The offset after the last archived message.")
    next_offset: int = Field(description="The offset of the next request.")
    messages: list[Any] = Field(description="As lines of `bailiff audit export`: offset, time, headers, value.")


class SealItem(BaseModel):
    """A message of `bailiff.seals`."""

    offset: int
    kind: str = Field(description="`LogSealed` or `SealingKey`.")
    data: Any


class CosignatureItem(BaseModel):
    """A message of `bailiff.cosignatures`."""

    offset: int
    kind: str = Field(description="`CheckpointCosigned` or `CheckpointRefused`.")
    witness: str = Field(description="Name, key id and public key of the witness.")
    size: int = Field(description="Records under the cosigned checkpoint.")
    cosigned_at: datetime
    data: Any


class CosignaturePage(BaseModel):
    """A page of cosignatures."""

    items: list[CosignatureItem]
    next: str | None


class SealPage(BaseModel):
    """A page of seals."""

    items: list[SealItem]
    next: str | None


RAW = """SELECT "offset", appended_at, headers, value FROM (
    (SELECT "offset", appended_at, headers, value FROM records
     WHERE pool = $1 AND seq >= $2 AND "offset" >= $3 ORDER BY seq LIMIT $4)
    UNION ALL (SELECT "offset", appended_at, headers, value FROM orphans
     WHERE pool = $1 AND "offset" >= $3 ORDER BY "offset" LIMIT $4)) found ORDER BY "offset" LIMIT $4"""


@router.get("/pools/{pool}/log", response_model=RawLog, summary="The bytes of the log")
async def log(
    query: PoolQueryParam,
    from_offset: Annotated[int, Query(description="First Kafka offset.", ge=0, le=given.LARGEST)] = 0,
    limit: Annotated[int, Query(description="Maximum number of messages.", ge=1, le=2000)] = 500,
    wait: Annotated[float, Query(description="Long poll: seconds to wait if there are no messages yet.", ge=0, le=30)] = 0,
) -> JsonResponse:
    """Every message of the partition including orphans, byte for byte: sufficient to verify chain, seals and replay."""
    archived = query.archive.archived()
    async with query.reading() as reading:
        row, rows = reading.pool, await _raw(reading, from_offset, limit)
    if not rows and wait and await until_archived(query.request, archived, wait):
        async with query.reading() as reading:
            row, rows = reading.pool, await _raw(reading, from_offset, limit)
    end = row["next_offset"]
    if from_offset > end:
        raise bad("from_offset", from_offset, f"at most {end}, the end of the archive")
    messages = []
    for each in rows:
        try:
            headers = unpack_headers(each["headers"])
        except ValueError:
            headers = ()
        messages.append(message_to_json(each["offset"], each["appended_at"], headers, each["value"]))
    go_on = rows[-1]["offset"] + 1 if len(rows) == limit else end
    return JsonResponse(
        {
            "pool": row["name"],
            "partition": row["partition"],
            "identity": row["identity"],
            "end_offset": end,
            "next_offset": go_on,
            "messages": messages,
        },
        headers={"cache-control": "no-store"},
    )


async def _raw(reading: Reading, from_offset: int, limit: int) -> list[Record]:
    """A record's offset is at least its seq, and exceeds it by at most the number of orphans."""
    row = reading.pool
    others = max(0, row["head_offset"] - (row["next_seq"] - 1))
    rows: list[Record] = await reading.fetch(RAW, row["id"], max(0, from_offset - others), from_offset, limit)
    return rows


SNAPSHOT = "SELECT data FROM snapshots WHERE pool = $1 AND schema = $2"


@router.get(
    "/pools/{pool}/snapshot",
    response_class=Response,
    responses={200: {"content": {GZIP: {}}, "description": "The snapshot."}},
    summary="The newest snapshot of the state",
)
async def snapshot(
    query: PoolQueryParam,
    schema: Annotated[int, Query(description="The form of the state that the reader knows.", ge=0, le=given.LARGEST)],
) -> Response:
    """A gzipped file as readers keep it. It proves nothing: compare it with the state digest that the log has at its position."""
    async with query.reading() as reading:
        found = await reading.fetch(SNAPSHOT, reading.pool["id"], schema)
    if not found:
        raise not_found(f"there is no snapshot of pool {query.name!r} with schema {schema} yet")
    return Response(found[0]["data"], media_type=GZIP, headers={"cache-control": "no-store"})


def seal_item(row: Record) -> dict[str, Any]:
    """A row as JSON."""
    return {"offset": row["offset"], "kind": row["kind"], "data": orjson.Fragment(row["data"])}


def _listing(tables: dict[str, str]) -> Listing:
    parts = [
        f"SELECT pool, \"offset\", '{kind}' AS kind, data FROM {table} WHERE data IS NOT NULL"  # noqa: S608 - our own names
        for table, kind in tables.items()
    ]
    select = f'SELECT s."offset", s.kind, s.data FROM ({" UNION ALL ".join(parts)}) s'  # noqa: S608 - our own names
    return Listing("seals", select, {"offset": 's."offset"'}, seal_item)


SEALS = _listing({"seals": "LogSealed", "sealing_keys": "SealingKey"})
ALL_SEALS = _listing({"seals": "LogSealed", "sealing_keys": "SealingKey", "fork_seals": "LogSealed", "forks": "SealsInvalidated"})


@router.get("/pools/{pool}/seals", response_model=SealPage, summary="Seals")
async def seals(query: PoolQueryParam, paging: given.Pages) -> JsonResponse:
    """The seals of the log and their keys as published, and those invalidated after an accepted truncation."""
    async with query.reading() as reading:
        forked = await reading.connection.fetchval("SELECT to_regclass('forks') IS NOT NULL")
        where = Where(reading.pool["id"])
        where.plain("s.pool = $1")
        return await reading.page(ALL_SEALS if forked else SEALS, where, paging, query.fingerprint)


def _cosignature(row: Record) -> dict[str, Any]:
    same = ("offset", "kind", "witness", "size", "cosigned_at")
    return {**{name: row[name] for name in same}, "data": orjson.Fragment(row["data"])}


COSIGNATURES = Listing(
    "cosignatures",
    'SELECT c."offset", c.kind, c.witness, c.size, c.cosigned_at, c.data FROM cosignatures c',
    {"offset": 'c."offset"'},
    _cosignature,
)


@router.get("/pools/{pool}/cosignatures", response_model=CosignaturePage, summary="Cosignatures")
async def cosignatures(query: PoolQueryParam, paging: given.Pages) -> JsonResponse:
    """What witnesses cosigned and refused, as published. The signatures are valid; whether a witness is trusted is up to you."""
    async with query.reading() as reading:
        where = Where(reading.pool["id"])
        where.plain("c.pool = $1")
        if not await reading.connection.fetchval("SELECT to_regclass('cosignatures') IS NOT NULL"):
            return JsonResponse({"items": [], "next": None})
        return await reading.page(COSIGNATURES, where, paging, query.fingerprint)
