"""Commands about machines and pools: nodes, pools, pool list and create, cluster-info, node list and describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bailiff.client.answers import not_found
from bailiff.client.errors import NodeNotFound

from . import enrolment, requests  # noqa: F401 - other commands of the group `node`
from .jobs import watch_or_show
from .parameters import NodeName, PoolsFile, Watch
from .session import Session, command

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from bailiff.client.client import Client
    from bailiff.render.serializers.nodes import ListedNode, NodeRow
    from bailiff.render.serializers.pools import PoolRow


@command("nodes", names="node")
async def nodes(session: Session, watch: Watch = False) -> None:
    """List nodes, their free resources, and the job on each GPU. With -o wide one line per GPU."""
    from bailiff.doctor.liveness import listed_nodes
    from bailiff.tables.nodes import listed_table
    from bailiff_core.humanize import approval_advice

    async with session.client() as client:

        async def look() -> list[ListedNode]:
            return await listed_nodes(client, (await client.projection(session.pool)).state)

        for name, waiting in (await client.projection(session.pool)).state.waiting_nodes.items():
            session.say(f"{name} waits to be enrolled with the key {waiting.key}; {approval_advice(name)}")
        wide = session.output.value == "wide"
        await watch_or_show(session, look, lambda rows: listed_table(rows, wide=wide), watch=watch)


@command("pools", leave_out=("pool",), names="pool")
async def pools(session: Session, watch: Watch = False) -> None:
    """List pools with the head of their log, nodes and jobs."""
    from bailiff.tables.pools import pools_table

    await _watch_rows(session, pools_table, watch=watch)


async def _watch_rows(session: Session, table: Callable[[list[PoolRow]], RenderableType], *, watch: bool) -> None:
    async with session.client() as client:
        await watch_or_show(session, lambda: _rows(client), table, watch=watch)


async def _rows(client: Client) -> list[PoolRow]:
    from bailiff.render.serializers.pools import pool_row

    rows = []
    for name in await client.pools():
        projection = await client.projection(name)
        rows.append(pool_row(projection.state, client.now(), projection.reader.orphans))
    return rows


@command("pool list", leave_out=("pool",), names="pool")
async def pool_list(session: Session, watch: Watch = False) -> None:
    """List pools with nodes, GPUs in use, queue length, and disabled actions."""
    from bailiff.tables.pools import pool_list_table

    await _watch_rows(session, pool_list_table, watch=watch)


@command("pool create", leave_out=("pool", "actor", "key"))
async def pool_create(
    session: Session,
    name: Annotated[str, typer.Argument(help="The pool's name, as in every record.")],
    pools: PoolsFile = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Partition of bailiff.audit. Default: the next free one.")] = None,
    description: Annotated[str, typer.Option(help="Short description.")] = "",
) -> None:
    """Declare a pool in the pools file, and print the remaining steps.

    Services read the file at start, so restart them to create the pool. Without --partition, the next free partition is looked up
    in Kafka.
    """
    from rich.markup import escape

    from bailiff.client.pool_files import with_pool, write_pools

    file = pools or session.settings.pools
    taken: list[int] = []
    if partition is None:
        async with session.client() as client:
            taken = [pool.partition for pool in (await client.pools()).values()]
    text, number = with_pool(file, name, partition, description, taken)
    write_pools(file, text, name, number)
    steps = [
        f"bailiff topics create --pools {file}",
        f"give admission, victim_selection and eviction_executor {file} and restart them: this creates the log",
        f'let agents join it: set in BAILIFF_NODES {{"pool": "{name}"}}',
        f"verify: bailiff doctor; change its policy: bailiff policy apply FILE --pool {name}",
    ]
    text_lines = [
        f"{file}: pool {name} has partition {number}, permanently. Remaining steps:",
        *(f"  {at}. {step}" for at, step in enumerate(steps, 1)),
    ]
    session.show(
        {"pool": name, "partition": number, "file": str(file), "next_steps": steps}, lambda: escape("\n".join(text_lines))
    )


@command("cluster-info", leave_out=("pool",))
async def cluster_info(session: Session) -> None:
    """Show Kafka, pools, nodes, logs, engines and policies of the cluster."""
    from bailiff.tables.pools import cluster_block
    from bailiff_log.engine_identity import engine_identity

    engine = engine_identity()
    async with session.client() as client:
        rows = await _rows(client)
    names = ("nodes", "nodes_ready", "gpus", "gpus_free", "gpus_allocated", "jobs_running", "jobs_pending", "jobs_evicting")
    figures: list[dict[str, Any]] = [dict(row) for row in rows]
    found = {
        "kafka": session.settings.kafka.bootstrap,
        "release": engine.release,
        "logic": engine.logic,
        "total": {name: sum(row[name] for row in figures) for name in names},
        "pools": rows,
    }
    session.show(found, lambda: cluster_block(found))


@command("node list")
async def node_list(session: Session, watch: Watch = False) -> None:
    """List quarantined and unhealthy GPUs, since when and why. The nodes themselves: bailiff nodes"""
    from bailiff.render.serializers.nodes import node_rows
    from bailiff.tables.nodes import troubles_table

    async with session.client() as client:

        async def look() -> list[NodeRow]:
            return node_rows((await client.projection(session.pool)).state)

        await watch_or_show(session, look, troubles_table, watch=watch)


@command("node describe")
async def node_describe(
    session: Session,
    node: NodeName,
    vouched: Annotated[
        bool, typer.Option("--enrolment", help="Also who vouched for it, and until when its certificate enrols: reads the log.")
    ] = False,
) -> None:
    """Show one node: its GPUs, their jobs, why GPUs are unavailable, and the key that it is enrolled with."""
    from bailiff.client.enrolments import enrolment_of
    from bailiff.render.serializers.nodes import node_rows
    from bailiff.tables.nodes import node_block

    async with session.client() as client:
        state = (await client.projection(session.pool)).state
        rows = node_rows(state)
        row = next((row for row in rows if row["node"] == node), None)
        if row is None:
            raise not_found(NodeNotFound, node, state)
        how = await enrolment_of(client, state.pool, state, node) if vouched else None
    session.show({**row, **({"enrolment": how} if vouched else {})}, lambda: node_block(row, how))
