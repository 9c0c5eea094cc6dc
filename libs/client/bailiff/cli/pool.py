"""Commands about machines and pools: nodes, pools, pool list and create, cluster-info, node replace and return."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bailiff.client.answers import require_accepted
from bailiff.client.errors import ClientError, ExitCode

from .enrolment import register_in
from .jobs import watch_or_show
from .session import Session, command

if TYPE_CHECKING:
    from bailiff.client.client import Client
    from bailiff.render.serializers.nodes import NodeRow
    from bailiff.render.serializers.pools import PoolRow
    from bailiff_bus.messages import RequestBody

PANEL = "Machines and pools"

Watch = Annotated[bool, typer.Option("--watch", "-w", help="Refresh whenever it changes.")]
NodeName = Annotated[str, typer.Argument(help="The node's name.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    command(app, rich_help_panel=PANEL)(nodes)
    command(app, rich_help_panel=PANEL, leave_out=("pool",))(pools)
    pool = typer.Typer(help="Pools: sets of nodes, each with its own log.", no_args_is_help=True)
    command(pool, "list", leave_out=("pool",))(pool_list)
    command(pool, "create", leave_out=("pool", "actor", "key"))(pool_create)
    app.add_typer(pool, name="pool", rich_help_panel=PANEL)
    command(app, "cluster-info", rich_help_panel=PANEL, leave_out=("pool",))(cluster_info)
    node = typer.Typer(help="Nodes: details, enrolment, unavailable GPUs, replacement.", no_args_is_help=True)
    command(node, "list")(node_list)
    command(node, "describe")(node_describe)
    command(node, "clear")(clear)
    register_in(node)
    command(node, "replace")(replace)
    command(node, "return")(return_)
    app.add_typer(node, name="node", rich_help_panel=PANEL)


async def nodes(session: Session, watch: Watch = False) -> None:
    """List nodes, their free resources, and the job on each GPU. With -o wide one line per GPU."""
    from bailiff.render.serializers.nodes import node_rows
    from bailiff.render.tables.nodes import nodes_table

    async with session.client() as client:

        async def look() -> list[NodeRow]:
            return node_rows((await client.projection(session.pool)).state)

        for name, waiting in (await client.projection(session.pool)).state.waiting_nodes.items():
            session.say(f"{name} waits to be enrolled; if it is genuine: bailiff node approve {name} {waiting.key}")
        wide = session.output.value == "wide"
        await watch_or_show(session, look, lambda rows: nodes_table(rows, wide=wide), watch=watch)


async def pools(session: Session, watch: Watch = False) -> None:
    """List pools with the head of their log, nodes and jobs."""
    from bailiff.render.tables.pools import pools_table

    async with session.client() as client:

        async def look() -> list[PoolRow]:
            return await _rows(client)

        await watch_or_show(session, look, pools_table, watch=watch)


async def _rows(client: Client) -> list[PoolRow]:
    from bailiff.render.serializers.pools import pool_row

    rows = []
    for name in await client.pools():
        projection = await client.projection(name)
        rows.append(pool_row(projection.state, client.now(), projection.reader.orphans))
    return rows


async def pool_list(session: Session, watch: Watch = False) -> None:
    """List pools with nodes, GPUs in use, queue length, and disabled actions."""
    from bailiff.render.tables.pools import pool_list_table

    async with session.client() as client:

        async def look() -> list[PoolRow]:
            return await _rows(client)

        await watch_or_show(session, look, pool_list_table, watch=watch)


async def pool_create(
    session: Session,
    name: Annotated[str, typer.Argument(help="The pool's name, as in every record.")],
    pools: Annotated[Path | None, typer.Option(metavar="FILE", help="File that declares the pools. Also: BAILIFF_POOLS.")] = None,
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


async def cluster_info(session: Session) -> None:
    """Show Kafka, pools, nodes, logs, engines and policies of the cluster."""
    from bailiff.render.tables.pools import cluster_block
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


async def node_list(session: Session, watch: Watch = False) -> None:
    """List quarantined and unhealthy GPUs, since when and why. The nodes themselves: bailiff nodes"""
    from bailiff.render.serializers.nodes import node_rows
    from bailiff.render.tables.nodes import troubles_table

    async with session.client() as client:

        async def look() -> list[NodeRow]:
            return node_rows((await client.projection(session.pool)).state)

        await watch_or_show(session, look, troubles_table, watch=watch)


async def node_describe(session: Session, node: NodeName) -> None:
    """Show one node: its GPUs, their jobs, and why GPUs are unavailable."""
    from bailiff.render.serializers.nodes import node_rows
    from bailiff.render.tables.nodes import node_block

    async with session.client() as client:
        rows = node_rows((await client.projection(session.pool)).state)
    found = next((row for row in rows if row["node"] == node), None)
    if found is None:
        known = ", ".join(row["node"] for row in rows[:20]) or "none"
        raise ClientError(ExitCode.NOT_FOUND, f"there is no node {node!r}", f"the pool has {known}")
    session.show(found, lambda: node_block(found))


async def clear(
    session: Session,
    node: NodeName,
    device: Annotated[str, typer.Argument(help="The GPU, by number on the node or by id.")],
    reason: Annotated[str, typer.Option(help="Why it can be used again; recorded in the audit log.")],
) -> None:
    """Put a quarantined or repaired GPU back into service.

    Without this command, a quarantined GPU returns as soon as it is seen free. With it, whatever is on the GPU may stay.
    """
    from bailiff_bus.messages import ClearQuarantine

    body = ClearQuarantine(node=node, device=device, reason=reason)
    await _ask(session, body, f"GPU {device} of {node} is cleared; its agent is notified")


async def replace(
    session: Session,
    node: NodeName,
    machine_id: Annotated[str, typer.Argument(help="Id of the new machine, as in `audit tail --type NodeRefused`.")],
) -> None:
    """Allow another machine to register under a node's name, after the first was removed permanently."""
    from bailiff_bus.messages import ReplaceNode

    await _ask(session, ReplaceNode(node=node, machine_id=machine_id), f"{node} may register as machine {machine_id}")


async def return_(
    session: Session, node: Annotated[str | None, typer.Argument(help="The node. Default: the whole pool.")] = None
) -> None:
    """Resume lease expiry for a node, or for the pool after many nodes became silent at once."""
    from bailiff_bus.messages import ReturnNode

    await _ask(session, ReturnNode(node=node), f"lease expiry of {node or 'the pool'} resumed")


async def _ask(session: Session, body: RequestBody, done: str) -> None:
    async with session.client() as client:
        pool = await client.pool(session.pool)
        outcome = await require_accepted(client, await client.request(pool.name, body))
        result = {"pool": pool.name, "seq": outcome.seq}
        session.show(result, lambda: f"{done}  ({pool.name}#{outcome.seq})")
