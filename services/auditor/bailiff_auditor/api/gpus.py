"""GPUs, and who held them at any time."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from . import parameters as given
from .answers import Answer
from .asking import Ask, Listing, Reading, in_domain
from .problems import Missing, bad

router = APIRouter(tags=["gpus"])
Asked = Annotated[Ask, Depends()]


class Holder(BaseModel):
    """Who stands on a GPU."""

    job: str
    submitted_seq: int
    attempt: int
    task: int
    kind: str = Field(description="`held`, or `reserved`: promised for when it is free.")
    project: str | None
    user: str | None
    priority_class: str | None
    from_seq: int
    from_at: datetime


class GpuItem(BaseModel):
    """A GPU, and who stood on it."""

    gpu: int = Field(description="Its number on the node.")
    id: str
    model: str
    state: str = Field(description="`ok`, `quarantined` or `unhealthy`.")
    trouble: str = Field(description="Why it is not ok.")
    holders: list[Holder] = Field(description="More than one where it is shared, or promised to another.")


class NodeGpus(BaseModel):
    """A node's GPUs."""

    node: str
    gpus: list[GpuItem]


class GpuMap(BaseModel):
    """All GPUs of the pool at one moment."""

    at: datetime | None = Field(description="The moment that was asked for; null: now.")
    seq: int | None = Field(description="The record that was asked for.")
    holds_seq: int = Field(description="The answer goes by what is noted up to this record.")
    nodes: list[NodeGpus]


class OneGpu(GpuItem):
    """One GPU at one moment."""

    node: str
    at: datetime | None
    seq: int | None
    holds_seq: int


class HoldItem(BaseModel):
    """A task's place, from when to when."""

    job: str
    submitted_seq: int
    attempt: int
    task: int
    kind: str
    node: str
    gpus: list[int]
    project: str | None
    user: str | None
    priority_class: str | None
    from_seq: int
    from_at: datetime
    to_seq: int | None
    to_at: datetime | None


class HoldPage(BaseModel):
    """A page of places."""

    items: list[HoldItem]
    next: str | None


def _moment(column: str, at: datetime | None, seq: int | None) -> tuple[str, Any]:
    """The condition on rows with a begin and an end, with $2 for the moment."""
    if at is not None and seq is not None:
        raise bad("seq", seq, "either `at` or `seq`, not both")
    if at is not None:
        return f"tstzrange({column}.from_at, {column}.to_at) @> $2::timestamptz", at
    if seq is not None:
        return f"{column}.from_seq <= $2 AND ({column}.to_seq IS NULL OR {column}.to_seq > $2)", seq
    return f"{column}.to_seq IS NULL AND $2::text IS NULL", None


async def _gpus(reading: Reading, at: datetime | None, seq: int | None, node: str | None) -> dict[str, dict[int, dict[str, Any]]]:
    if seq is not None and seq >= reading.domain["next_seq"]:
        raise bad("seq", seq, f"a record that is archived: below {reading.domain['next_seq']}")
    key = reading.domain["id"]
    condition, moment = _moment("g", at, seq)
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for row in await reading.fetch(
        f"""SELECT g.node, g.gpu, g.id, g.model, g.state, g.trouble FROM gpu_states g
            WHERE g.domain = $1 AND {condition} AND ($3::text IS NULL OR g.node = $3) ORDER BY g.node, g.gpu""",  # noqa: S608
        key, moment, node,
    ):  # fmt: skip
        gpu = {**row, "holders": []}
        found.setdefault(gpu.pop("node"), {})[gpu["gpu"]] = gpu
    condition, moment = _moment("h", at, seq)
    for row in await reading.fetch(
        f"""SELECT h.node, h.gpus, h.job, h.submitted_seq, h.attempt, h.task, h.kind, j.project, j.user_name AS "user",
            j.priority_class, h.from_seq, h.from_at FROM holds h LEFT JOIN jobs j USING (domain, job, submitted_seq)
            WHERE h.domain = $1 AND {condition} AND ($3::text IS NULL OR h.node = $3)
            ORDER BY h.node, h.from_seq, h.job, h.task, h.kind""",  # noqa: S608 - our own names
        key, moment, node,
    ):  # fmt: skip
        holder = dict(row)
        devices = found.get(holder.pop("node"), {})
        for number in holder.pop("gpus"):
            if number in devices:
                devices[number]["holders"].append(holder)
    return found


@router.get("/domains/{domain}/gpus", response_model=GpuMap, summary="Every GPU of the pool, and who holds it")
async def gpu_map(ask: Asked, at: given.At = None, seq: given.AtSeq = None) -> Answer:
    """All of them in one answer, now or at any moment of the past."""
    async with ask.reading() as reading:
        found = await _gpus(reading, at, seq, None)
        whole = [{"node": node, "gpus": list(gpus.values())} for node, gpus in found.items()]
        return reading.answer({"at": at, "seq": seq, "holds_seq": reading.domain["holds_seq"], "nodes": whole})


@router.get("/domains/{domain}/nodes/{node}/gpus/{gpu}", response_model=OneGpu, summary="What held this GPU at that time")
async def one_gpu(ask: Asked, node: given.NodeName, gpu: given.Gpu, at: given.At = None, seq: given.AtSeq = None) -> Answer:
    """Now, at a moment, or just after a record."""
    async with ask.reading() as reading:
        found = (await _gpus(reading, at, seq, node)).get(node, {}).get(gpu)
        if found is None:
            when = "now" if at is None and seq is None else f"at {at.isoformat()}" if at is not None else f"after record {seq}"
            raise Missing(f"{ask.name} has no GPU {gpu} on a node {node!r} {when}")
        return reading.answer({**found, "node": node, "at": at, "seq": seq, "holds_seq": reading.domain["holds_seq"]})


HOLDS = Listing(
    "holds",
    """SELECT h.job, h.submitted_seq, h.attempt, h.task, h.kind, h.node, h.gpus, j.project, j.user_name AS "user",
       j.priority_class, h.from_seq, h.from_at, h.to_seq, h.to_at FROM holds h
       LEFT JOIN jobs j USING (domain, job, submitted_seq)""",
    {"from_seq": "h.from_seq", "job": "h.job", "submitted_seq": "h.submitted_seq", "task": "h.task", "kind": "h.kind"},
)


@router.get("/domains/{domain}/holds", response_model=HoldPage, summary="Who stood where, from when to when")
async def holds(
    ask: Asked, paging: given.Pages, node: given.Nodes = None,
    gpu: Annotated[int | None, Query(description="Only on the GPU of this number; with `node`.", ge=0, le=1_000_000)] = None,
    job: given.Jobs = None, project: given.Projects = None, priority_class: given.Classes = None, user: given.Users = None,
    from_: given.From = None, to: given.To = None,
) -> Answer:  # fmt: skip
    """Places of tasks. With `from` and `to`: those that lasted into that time."""
    where = in_domain("h.domain")
    where.add("h.node = ANY(?)", node)
    where.add("? = ANY(h.gpus)", gpu)
    where.add("h.job = ANY(?)", job)
    where.add("j.project = ANY(?)", project)
    where.add("j.priority_class = ANY(?)", priority_class)
    where.add("j.user_name = ANY(?)", user)
    where.add("(h.to_at IS NULL OR h.to_at > ?)", from_)
    where.add("h.from_at < ?", to)
    return await ask.page(HOLDS, where, paging)
