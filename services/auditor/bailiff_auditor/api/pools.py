"""Pools with their archive state, and nodes."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field

from bailiff_core.views import Moment, NodeView
from bailiff_service.json_response import JsonResponse

from . import parameters as given
from .query import POOLS, Listing, PoolQuery, in_pool

router = APIRouter(tags=["pools"])
PoolQueryParam = Annotated[PoolQuery, Depends()]


class PoolItem(BaseModel):
    """A pool and the state of its archive."""

    pool: str
    partition: int
    identity: str = Field(description="The hash of the log's first record.")
    first_seq: int = Field(description="The first archived record; earlier ones were exported and pruned.")
    next_seq: int = Field(description="Records before this seq are archived.")
    next_offset: int
    head_hash: str
    head_time: str
    epoch: int
    ok: bool = Field(description="Whether the log continues the archived chain.")
    broken: str = Field(description="Why archiving stopped at `next_seq`; empty if it did not.")
    broken_since: datetime | None
    archived_at: datetime | None = Field(description="Time of the last write to the archive.")
    behind: int | None = Field(description="Archive lag in messages, at `measured_at`.")
    measured_at: datetime | None
    allocations_seq: int = Field(description="GPU allocations are stored up to this record.")
    sealed: int = Field(description="Number of records covered by the newest seal.")
    sealed_at: datetime | None


class PoolPage(BaseModel):
    """All pools."""

    items: list[PoolItem]


class ArchivedNode(NodeView):
    """A node's current state."""

    since: Annotated[Moment | None, Field(description="When it was seen last to be ready, unreachable or lost.")]
    drain: Annotated[str | None, Field(description="Drain mode; null: schedulable.")]
    joined_at: Moment | None


class NodePage(BaseModel):
    """A page of nodes."""

    items: list[ArchivedNode]
    next: str | None


async def _pools(connection: Any, name: str | None) -> list[dict[str, Any]]:
    rows = await connection.fetch(
        f"""SELECT d.*, s.size AS sealed, s.sealed_at FROM ({POOLS}) d LEFT JOIN LATERAL
            (SELECT size, sealed_at FROM seals WHERE pool = d.id ORDER BY size DESC LIMIT 1) s ON true
            WHERE $1::text IS NULL OR d.name = $1 ORDER BY d.name""",  # noqa: S608 - our own names
        name,
    )
    same = (
        "partition",
        "identity",
        "next_seq",
        "next_offset",
        "head_hash",
        "head_time",
        "epoch",
        "broken",
        "broken_since",
        "measured_at",
        "allocations_seq",
        "sealed_at",
    )
    return [
        {
            "pool": row["name"],
            "first_seq": row.get("first_seq", 0),
            **{name: row[name] for name in same},
            "ok": not row["broken"],
            "archived_at": row["written_at"],
            "behind": max(0, row["log_end"] - row["next_offset"]) if row["log_end"] is not None else None,
            "sealed": row["sealed"] or 0,
        }
        for row in rows
    ]


@router.get("/pools", response_model=PoolPage, summary="Pools and their archive state")
async def pools(request: Request) -> JsonResponse:
    """Chain, seals and lag of each pool."""
    async with request.app.state.archive.reading() as connection:
        return JsonResponse({"items": await _pools(connection, None)}, headers={"cache-control": "no-store"})


@router.get("/pools/{pool}", response_model=PoolItem, summary="One pool and its archive state")
async def one_pool(query: PoolQueryParam) -> JsonResponse:
    """Chain, seals and lag."""
    async with query.reading() as reading:
        (found,) = await _pools(reading.connection, query.name)
        return reading.answer(found)


HAS_TASKS = """EXISTS (SELECT FROM gpu_allocations h WHERE h.pool = n.pool AND h.node = n.node AND h.to_seq IS NULL
    AND h.kind = 'allocated')"""
STATE = f"""CASE WHEN n.state = 'ready' AND n.drained <> '' THEN CASE WHEN {HAS_TASKS} THEN 'draining' ELSE 'drained' END
    ELSE n.state END"""  # as `node_state` of the client says it
NODES = Listing(
    "nodes",
    f"""SELECT n.node, {STATE} AS state, n.since, nullif(n.drained, '') AS drain,
       coalesce(n.gpu_milli, 0) / 1000.0::float8 AS gpus, coalesce(n.gpu_models, '{{}}') AS gpu_models,
       coalesce(n.cpu_milli, 0) AS cpu_milli, coalesce(n.memory_bytes, 0) AS memory_bytes, n.joined_at,
       coalesce(n.machine_id, '') AS machine_id FROM nodes n""",  # noqa: S608 - our own names
    {"node": "n.node"},
    order="asc",
)


@router.get("/pools/{pool}/nodes", response_model=NodePage, summary="Nodes")
async def nodes(
    query: PoolQueryParam,
    paging: given.Pages,
    node: given.Nodes = None,
    state: Annotated[list[given.Text] | None, given.several("Only in this state now.", "ready")] = None,
) -> JsonResponse:
    """Current state, by name."""
    where = in_pool("n.pool")
    where.add("n.node = ANY(?)", node)
    where.add(f"({STATE}) = ANY(?)", state)
    return await query.page(NODES, where, paging)
