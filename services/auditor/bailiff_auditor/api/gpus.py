"""GPU allocations at any time, and over time."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import not_found

from . import parameters as given
from .problems import bad
from .query import Listing, PoolQuery, Reading, in_pool

router = APIRouter(tags=["gpus"])
PoolQueryParam = Annotated[PoolQuery, Depends()]


class Holder(BaseModel):
    """A task with an allocation or reservation on a GPU."""

    job: str
    submitted_seq: int
    attempt: int
    task: int
    kind: str = Field(description="`allocated` or `reserved`.")
    project: str | None
    user: str | None
    user_verified: bool | None
    priority_class: str | None
    from_seq: int
    from_at: datetime


class GpuItem(BaseModel):
    """A GPU and its allocations."""

    gpu: int = Field(description="Its number on the node.")
    id: str
    model: str
    state: str = Field(description="`ok`, `quarantined` or `unhealthy`.")
    fault: str = Field(description="Why the state is not `ok`.")
    holders: list[Holder] = Field(description="More than one if the GPU is shared or also reserved.")


class NodeGpus(BaseModel):
    """A node's GPUs."""

    node: str
    devices: list[GpuItem]


class GpuMap(BaseModel):
    """All GPUs of the pool at one time."""

    at: datetime | None = Field(description="The requested time; null: now.")
    seq: int | None = Field(description="The requested record.")
    allocations_seq: int = Field(description="Allocations are stored up to this record.")
    nodes: list[NodeGpus]


class GpuAtTime(GpuItem):
    """One GPU at one time."""

    node: str
    at: datetime | None
    seq: int | None
    allocations_seq: int


class AllocationItem(BaseModel):
    """A task's allocation or reservation, and its interval."""

    job: str
    submitted_seq: int
    attempt: int
    task: int
    kind: str
    node: str
    devices: list[int] = Field(description="Numbers of its GPUs on the node.")
    project: str | None
    user: str | None
    user_verified: bool | None
    priority_class: str | None
    from_seq: int
    from_at: datetime
    to_seq: int | None
    to_at: datetime | None


class AllocationPage(BaseModel):
    """A page of allocations."""

    items: list[AllocationItem]
    next: str | None


def _interval_condition(column: str, at: datetime | None, seq: int | None) -> tuple[str, Any]:
    """The SQL condition on an interval; $2 is the time or seq."""
    if at is not None and seq is not None:
        raise bad("seq", seq, "either `at` or `seq`, not both")
    if at is not None:
        return f"tstzrange({column}.from_at, {column}.to_at) @> $2::timestamptz", at
    if seq is not None:
        return f"{column}.from_seq <= $2 AND ({column}.to_seq IS NULL OR {column}.to_seq > $2)", seq
    return f"{column}.to_seq IS NULL AND $2::text IS NULL", None


async def _gpus(reading: Reading, at: datetime | None, seq: int | None, node: str | None) -> dict[str, dict[int, dict[str, Any]]]:
    if seq is not None and seq >= reading.pool["next_seq"]:
        raise bad("seq", seq, f"an archived record: below {reading.pool['next_seq']}")
    key = reading.pool["id"]
    condition, at_value = _interval_condition("g", at, seq)
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for row in await reading.fetch(
        f"""SELECT g.node, g.gpu, g.id, g.model, g.state, g.fault FROM gpu_states g
            WHERE g.pool = $1 AND {condition} AND ($3::text IS NULL OR g.node = $3) ORDER BY g.node, g.gpu""",  # noqa: S608
        key,
        at_value,
        node,
    ):
        gpu = {**row, "holders": []}
        found.setdefault(gpu.pop("node"), {})[gpu["gpu"]] = gpu
    condition, at_value = _interval_condition("h", at, seq)
    for row in await reading.fetch(
        f"""SELECT h.node, h.gpus, h.job, h.submitted_seq, h.attempt, h.task, h.kind, j.project, j.user_name AS "user",
            j.user_verified, j.priority_class, h.from_seq, h.from_at
            FROM gpu_allocations h LEFT JOIN jobs j USING (pool, job, submitted_seq)
            WHERE h.pool = $1 AND {condition} AND ($3::text IS NULL OR h.node = $3)
            ORDER BY h.node, h.from_seq, h.job, h.task, h.kind""",  # noqa: S608 - our own names
        key,
        at_value,
        node,
    ):
        holder = dict(row)
        devices = found.get(holder.pop("node"), {})
        for number in holder.pop("gpus"):
            if number in devices:
                devices[number]["holders"].append(holder)
    return found


@router.get("/pools/{pool}/gpus", response_model=GpuMap, summary="All GPUs of the pool with their allocations")
async def gpu_map(query: PoolQueryParam, at: given.At = None, seq: given.AtSeq = None) -> JsonResponse:
    """Now, at a time, or after a record."""
    async with query.reading() as reading:
        found = await _gpus(reading, at, seq, None)
        whole = [{"node": node, "devices": list(gpus.values())} for node, gpus in found.items()]
        return reading.answer({"at": at, "seq": seq, "allocations_seq": reading.pool["allocations_seq"], "nodes": whole})


@router.get("/pools/{pool}/nodes/{node}/gpus/{gpu}", response_model=GpuAtTime, summary="Allocations of one GPU at a time")
async def one_gpu(
    query: PoolQueryParam, node: given.NodeName, gpu: given.Gpu, at: given.At = None, seq: given.AtSeq = None
) -> JsonResponse:
    """Now, at a time, or after a record."""
    async with query.reading() as reading:
        found = (await _gpus(reading, at, seq, node)).get(node, {}).get(gpu)
        if found is None:
            when = "now" if at is None and seq is None else f"at {at.isoformat()}" if at is not None else f"after record {seq}"
            raise not_found(f"{query.name} has no GPU {gpu} on a node {node!r} {when}")
        return reading.answer({**found, "node": node, "at": at, "seq": seq, "allocations_seq": reading.pool["allocations_seq"]})


GPU_ALLOCATIONS = Listing(
    "gpu_allocations",
    """SELECT h.job, h.submitted_seq, h.attempt, h.task, h.kind, h.node, h.gpus AS devices, j.project, j.user_name AS "user",
       j.user_verified, j.priority_class, h.from_seq, h.from_at, h.to_seq, h.to_at FROM gpu_allocations h
       LEFT JOIN jobs j USING (pool, job, submitted_seq)""",
    {"from_seq": "h.from_seq", "job": "h.job", "submitted_seq": "h.submitted_seq", "task": "h.task", "kind": "h.kind"},
)


@router.get("/pools/{pool}/allocations", response_model=AllocationPage, summary="Allocations over time")
async def allocations(
    query: PoolQueryParam,
    paging: given.Pages,
    node: given.Nodes = None,
    gpu: Annotated[int | None, Query(description="Only on this GPU number; use with `node`.", ge=0, le=1_000_000)] = None,
    job: given.Jobs = None,
    project: given.Projects = None,
    priority_class: given.Classes = None,
    user: given.Users = None,
    from_: given.From = None,
    to: given.To = None,
) -> JsonResponse:
    """Allocations and reservations of tasks. `from` and `to`: those that overlap this interval."""
    where = in_pool("h.pool")
    where.add("h.node = ANY(?)", node)
    where.add("? = ANY(h.gpus)", gpu)
    where.add("h.job = ANY(?)", job)
    where.add("j.project = ANY(?)", project)
    where.add("j.priority_class = ANY(?)", priority_class)
    where.add("j.user_name = ANY(?)", user)
    where.add("(h.to_at IS NULL OR h.to_at > ?)", from_)
    where.add("h.from_at < ?", to)
    return await query.page(GPU_ALLOCATIONS, where, paging)
