"""Commands about machines and pools: nodes, pools, pool list and create, cluster-info, node replace and return."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from bailiff.client import Client
from bailiff.poolfile import with_pool, write_pools
from bailiff.present.nodes import NodeRow, node_rows
from bailiff.present.pools import PoolRow, pool_row
from bailiff.problem import ExitCode, Problem
from bailiff.tables.nodes import node_block, nodes_table, troubles_table
from bailiff.tables.pools import cluster_block, pool_list_table, pools_table
from bailiff_bus.engine_identity import engine_identity
from bailiff_bus.messages import ClearQuarantine, ReplaceNode, RequestBody, ReturnNode

from .jobs import answered, shown
from .session import Session, command

PANEL = "Machines and pools"

Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it again whenever it changes.")]
NodeName = Annotated[str, typer.Argument(help="The node's name.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    command(app, rich_help_panel=PANEL)(nodes)
    command(app, rich_help_panel=PANEL, leave_out=("domain",))(pools)
    pool = typer.Typer(help="Pools: sets of machines that share work, each with a log of its own.", no_args_is_help=True)
    command(pool, "list", leave_out=("domain",))(pool_list)
    command(pool, "create", leave_out=("domain", "actor", "key"))(pool_create)
    app.add_typer(pool, name="pool", rich_help_panel=PANEL)
    command(app, "cluster-info", rich_help_panel=PANEL, leave_out=("domain",))(cluster_info)
    node = typer.Typer(help="Single nodes: GPUs out of use and why, and what operators say may be trusted.", no_args_is_help=True)
    command(node, "list")(node_list)
    command(node, "describe")(node_describe)
    command(node, "clear")(clear)
    command(node, "replace")(replace)
    command(node, "return")(return_)
    app.add_typer(node, name="node", rich_help_panel=PANEL)


async def nodes(session: Session, watch: Watch = False) -> None:
    """Machines, what is free on them, and who holds which GPU. With -o wide each GPU on its own line."""
    async with session.client() as client:

        async def look() -> list[NodeRow]:
            return node_rows((await client.view(session.domain)).pool)

        wide = session.output.value == "wide"
        await shown(session, look, lambda rows: nodes_table(rows, wide=wide), watch=watch)


async def pools(session: Session, watch: Watch = False) -> None:
    """Every pool: how far its log is, its machines, its jobs."""
    async with session.client() as client:

        async def look() -> list[PoolRow]:
            return await _rows(client)

        await shown(session, look, pools_table, watch=watch)


async def _rows(client: Client) -> list[PoolRow]:
    rows = []
    for name in await client.domains():
        view = await client.view(name)
        rows.append(pool_row(view.pool, client.now(), view.reader.orphans))
    return rows


async def pool_list(session: Session, watch: Watch = False) -> None:
    """Pools with their machines, their GPUs in use, their queue, and the verbs that their policy switches off."""
    async with session.client() as client:

        async def look() -> list[PoolRow]:
            return await _rows(client)

        await shown(session, look, pool_list_table, watch=watch)


async def pool_create(
    session: Session,
    name: Annotated[str, typer.Argument(help="The pool's name; it is its domain in every record.")],
    pools: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file that declares the pools. Also: BAILIFF_POOLS.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, help="Its partition of bailiff.audit. Default: the next free one.")
    ] = None,
    description: Annotated[str, typer.Option(help="In a few words.")] = "",
) -> None:
    """Declare a pool in the pools file, and say what is left to do.

    Services read that file when they start, so a pool begins once they were given it; without --partition, Kafka is
    asked which partitions have a log already.
    """
    file = pools or session.settings.pools
    taken: list[int] = []
    if partition is None:
        async with session.client() as client:
            taken = [domain.partition for domain in (await client.domains()).values()]
    text, number = with_pool(file, name, partition, description, taken)
    write_pools(file, text, name, number)
    steps = [
        f"bailiff topics create --pools {file}",
        f"give admission, victim_selection and eviction_executor {file} and restart them: the pool's log begins then",
        f'let agents join it: in BAILIFF_NODES say {{"domain": "{name}"}}',
        f"look: bailiff doctor; change its policy: bailiff policy apply FILE -d {name}",
    ]
    said = [
        f"{file}: pool {name} has partition {number}, for ever. What is left to do:",
        *(f"  {at}. {step}" for at, step in enumerate(steps, 1)),
    ]
    session.show({"pool": name, "partition": number, "file": str(file), "next_steps": steps}, lambda: escape("\n".join(said)))


async def cluster_info(session: Session) -> None:
    """What this cluster consists of: Kafka, pools, machines, logs, engines, policies."""
    engine = engine_identity()
    async with session.client() as client:
        rows = await _rows(client)
    names = ("nodes", "nodes_ready", "gpus", "gpus_free", "gpus_held", "jobs_running", "jobs_waiting", "jobs_leaving")
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
    """GPUs that nobody can be given, quarantined or broken, since when and why. The machines themselves: `bailiff nodes`."""
    async with session.client() as client:

        async def look() -> list[NodeRow]:
            return node_rows((await client.view(session.domain)).pool)

        await shown(session, look, troubles_table, watch=watch)


async def node_describe(session: Session, node: NodeName) -> None:
    """One machine: its GPUs, who holds them, and what is wrong with those that are out of use."""
    async with session.client() as client:
        rows = node_rows((await client.view(session.domain)).pool)
    found = next((row for row in rows if row["node"] == node), None)
    if found is None:
        known = ", ".join(row["node"] for row in rows[:20]) or "none"
        raise Problem(ExitCode.NOT_FOUND, f"there is no node {node!r}", f"the pool has {known}")
    session.show(found, lambda: node_block(found))


async def clear(
    session: Session,
    node: NodeName,
    device: Annotated[str, typer.Argument(help="Its number on the node, or its id.")],
    reason: Annotated[str, typer.Option(help="Why it may be used again; stands in the audit log.")],
) -> None:
    """Take a GPU back into use that is quarantined, or that was broken and is repaired.

    What is on a quarantined one now may stay. By itself it comes back as soon as it is seen free.
    """
    body = ClearQuarantine(node=node, device=device, reason=reason)
    await _ask(session, body, f"GPU {device} of {node} is to be used again, its agent is told")


async def replace(
    session: Session,
    node: NodeName,
    machine_id: Annotated[
        str, typer.Argument(help="The machine that may take the name; `audit tail --type NodeRefused` shows it.")
    ],
) -> None:
    """Let another machine take a node's name, after the first one is gone for good."""
    await _ask(session, ReplaceNode(node=node, machine_id=machine_id), f"{node} may now be machine {machine_id}")


async def return_(
    session: Session, node: Annotated[str | None, typer.Argument(help="The node. Default: the whole pool.")] = None
) -> None:
    """Judge silence again: of a node, or of the pool after many nodes fell silent at once."""
    await _ask(session, ReturnNode(node=node), f"{node or 'the pool'} is trusted again")


async def _ask(session: Session, body: RequestBody, done: str) -> None:
    async with session.client() as client:
        where = await client.domain(session.domain)
        outcome = await answered(client, await client.request(where.name, body))
        result = {"pool": where.name, "seq": outcome.seq}
        session.show(result, lambda: f"{done}  ({where.name}#{outcome.seq})")
