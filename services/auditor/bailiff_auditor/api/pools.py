"""Pools and how far they are archived; nodes, GPUs and who holds them at any time; projects and their use."""

from datetime import datetime
from typing import Annotated, Any

from asyncpg import Record
from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field

from . import parameters as given
from .answers import Answer
from .asking import DOMAINS, Ask, Listing, Reading, in_domain
from .problems import Missing, bad

router = APIRouter(tags=["pools"])
Asked = Annotated[Ask, Depends()]


class DomainItem(BaseModel):
    """A pool, and how its archive stands."""

    domain: str
    partition: int
    identity: str = Field(description="The hash of the log's first record.")
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


class UsageItem(BaseModel):
    """A project's use at a moment. The project '' is the whole pool."""

    project: str
    seq: int
    time: datetime
    gpus: float
    gpus_fixed: float = Field(description="Of the use, by jobs that are not preemptible.")
    gpus_wanted: float
    quota: float | None = Field(description="null: no bound.")
    limit: float | None
    fair_share: float
    borrowed: float | None = Field(description="Use above quota.")
    cpus: float
    memory_bytes: int


class UsagePage(BaseModel):
    """A page of uses."""

    items: list[UsageItem]
    next: str | None


class ProjectItem(BaseModel):
    """A project, its jobs, and its newest noted use."""

    project: str
    jobs: dict[str, int] = Field(description="Jobs that have not ended, by state.")
    use: UsageItem | None


class ProjectPage(BaseModel):
    """All projects."""

    items: list[ProjectItem]


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
            "domain": row["name"], **{name: row[name] for name in same}, "ok": not row["broken"],
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


# --- GPUs


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
        gpu = dict(row)
        found.setdefault(gpu.pop("node"), {})[row["gpu"]] = {**gpu, "holders": []}
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


@router.get("/domains/{domain}/gpus", response_model=GpuMap, tags=["gpus"], summary="Every GPU of the pool, and who holds it")
async def gpu_map(ask: Asked, at: given.At = None, seq: given.AtSeq = None) -> Answer:
    """All of them in one answer, now or at any moment of the past."""
    async with ask.reading() as reading:
        found = await _gpus(reading, at, seq, None)
        whole = [{"node": node, "gpus": list(gpus.values())} for node, gpus in found.items()]
        return reading.answer({"at": at, "seq": seq, "holds_seq": reading.domain["holds_seq"], "nodes": whole})


@router.get(
    "/domains/{domain}/nodes/{node}/gpus/{gpu}", response_model=OneGpu, tags=["gpus"], summary="What held this GPU at that time"
)
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
       j.priority_class, h.from_seq, h.from_at, h.to_seq, h.to_at FROM holds h LEFT JOIN jobs j USING (domain, job, submitted_seq)""",
    {"from_seq": "h.from_seq", "job": "h.job", "submitted_seq": "h.submitted_seq", "task": "h.task", "kind": "h.kind"},
)


@router.get("/domains/{domain}/holds", response_model=HoldPage, tags=["gpus"], summary="Who stood where, from when to when")
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


# --- projects

USE = """u.project, u.seq, u.time, u.used_gpu_milli / 1000.0::float8 AS gpus, u.fixed_gpu_milli / 1000.0::float8 AS gpus_fixed,
    u.requested_gpu_milli / 1000.0::float8 AS gpus_wanted, u.quota_gpu_milli / 1000.0::float8 AS quota,
    u.limit_gpu_milli / 1000.0::float8 AS "limit", u.share_gpu_milli / 1000.0::float8 AS fair_share,
    CASE WHEN u.quota_gpu_milli IS NOT NULL
        THEN greatest(0, u.used_gpu_milli - u.quota_gpu_milli) / 1000.0::float8 END AS borrowed,
    u.used_cpu_milli / 1000.0::float8 AS cpus, u.used_memory_bytes AS memory_bytes"""
USAGE = Listing("usage", f"SELECT {USE} FROM project_usage u", {"seq": "u.seq", "project": "u.project"})  # noqa: S608 - ours


@router.get("/domains/{domain}/usage", response_model=UsagePage, tags=["projects"], summary="Use against quota and fair share")
async def usage(
    ask: Asked, paging: given.Pages,
    project: Annotated[list[given.Text] | None, given.several("Only of this project; '' is the whole pool.", "research")] = None,
    from_: given.From = None, to: given.To = None,
) -> Answer:  # fmt: skip
    """Over time, as it is noted about once per minute of log time."""
    where = in_domain("u.domain")
    where.add("u.project = ANY(?)", project)
    where.add("u.time >= ?", from_)
    where.add("u.time < ?", to)
    return await ask.page(USAGE, where, paging)


@router.get("/domains/{domain}/projects", response_model=ProjectPage, tags=["projects"], summary="Projects")
async def projects(ask: Asked) -> Answer:
    """All projects that have jobs or a quota, with the newest noted use."""
    async with ask.reading() as reading:
        key = reading.domain["id"]
        rows: list[Record] = await reading.fetch(
            f"SELECT {USE} FROM project_usage u WHERE u.domain = $1 AND u.seq = (SELECT max(seq) FROM project_usage WHERE domain = $1)",  # noqa: S608, E501
            key,
        )  # fmt: skip
        use = {row["project"]: dict(row) for row in rows}
        counts: dict[str, dict[str, int]] = {name: {} for name in use}
        for row in await reading.fetch(
            """SELECT coalesce(project, '') AS project, coalesce(state, '') AS state, count(*) AS jobs FROM jobs
               WHERE domain = $1 AND ended_seq IS NULL GROUP BY 1, 2 ORDER BY 1, 2""",
            key,
        ):
            counts.setdefault(row["project"], {})[row["state"]] = row["jobs"]
        items = [{"project": name, "jobs": counts[name], "use": use.get(name)} for name in sorted(counts)]
        return reading.answer({"items": items})
