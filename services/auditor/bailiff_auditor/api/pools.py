"""Pools and how far they are archived, and their nodes."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field

from . import parameters as given
from .answers import Answer
from .asking import DOMAINS, Ask, Listing, in_domain

router = APIRouter(tags=["pools"])
Asked = Annotated[Ask, Depends()]


class DomainItem(BaseModel):
    """A pool, and how its archive stands."""

    domain: str
    partition: int
    identity: str = Field(description="The hash of the log's first record.")
    first_seq: int = Field(description="Where the archive begins: records before it were exported and taken out.")
    next_seq: int = Field(description="So many records are archived: those before this one.")
    next_offset: int
    head_hash: str
    head_time: str
    epoch: int
    ok: bool = Field(description="Whether the log goes on from what is archived.")
    broken: str = Field(description="Why nothing beyond `next_seq` is archived; empty while all is well.")
    broken_since: datetime | None
    archived_at: datetime | None = Field(description="When something was archived last.")
    behind: int | None = Field(description="Messages of the log that were not archived when that was last looked at.")
    measured_at: datetime | None
    holds_seq: int = Field(description="Who holds what is noted up to this record.")
    sealed: int = Field(description="So many records are under the newest seal.")
    sealed_at: datetime | None


class DomainList(BaseModel):
    """All pools."""

    items: list[DomainItem]


class NodeItem(BaseModel):
    """A machine, as it is now."""

    node: str
    state: str | None = Field(examples=["ready"])
    since: datetime | None
    drained: str | None = Field(description="How it is being emptied; empty: it takes work.")
    gpus: int | None
    gpu_model: str | None
    cpus: float | None
    memory_bytes: int | None
    joined_at: datetime | None
    machine_id: str | None


class NodePage(BaseModel):
    """A page of nodes."""

    items: list[NodeItem]
    next: str | None


async def _domains(connection: Any, name: str | None) -> list[dict[str, Any]]:
    rows = await connection.fetch(
        f"""SELECT d.*, s.size AS sealed, s.sealed_at FROM ({DOMAINS}) d LEFT JOIN LATERAL
            (SELECT size, sealed_at FROM seals WHERE domain = d.id ORDER BY size DESC LIMIT 1) s ON true
            WHERE $1::text IS NULL OR d.name = $1 ORDER BY d.name""",  # noqa: S608 - our own names
        name,
    )  # fmt: skip
    same = (
        "partition", "identity", "next_seq", "next_offset", "head_hash", "head_time", "epoch", "broken", "broken_since",
        "measured_at", "holds_seq", "sealed_at",
    )  # fmt: skip
    return [
        {
            "domain": row["name"],
            "first_seq": row.get("first_seq", 0), **{name: row[name] for name in same}, "ok": not row["broken"],
            "archived_at": row["written_at"],
            "behind": max(0, row["log_end"] - row["next_offset"]) if row["log_end"] is not None else None,
            "sealed": row["sealed"] or 0,
        }
        for row in rows
    ]  # fmt: skip


@router.get("/domains", response_model=DomainList, summary="All pools, and how far they are archived")
async def domains(request: Request) -> Answer:
    """Chain, seals and lag of each."""
    async with request.app.state.archive.reading() as connection:
        return Answer({"items": await _domains(connection, None)}, headers={"cache-control": "no-store"})


@router.get("/domains/{domain}", response_model=DomainItem, summary="One pool, and how far it is archived")
async def one_domain(ask: Asked) -> Answer:
    """Chain, seals and lag."""
    async with ask.reading() as reading:
        (found,) = await _domains(reading.connection, ask.name)
        return reading.answer(found)


NODES = Listing(
    "nodes",
    """SELECT n.node, n.state, n.since, coalesce(n.drained, '') AS drained, n.gpus, n.gpu_model,
       n.cpu_milli / 1000.0::float8 AS cpus, n.memory_bytes, n.joined_at, n.machine_id FROM nodes n""",
    {"node": "n.node"},
    order="asc",
)


@router.get("/domains/{domain}/nodes", response_model=NodePage, summary="Nodes")
async def nodes(
    ask: Asked, paging: given.Pages, node: given.Nodes = None,
    state: Annotated[list[given.Text] | None, given.several("Only in this state now.", "ready")] = None,
) -> Answer:  # fmt: skip
    """As they are now, by name."""
    where = in_domain("n.domain")
    where.add("n.node = ANY(?)", node)
    where.add("n.state = ANY(?)", state)
    return await ask.page(NODES, where, paging)
