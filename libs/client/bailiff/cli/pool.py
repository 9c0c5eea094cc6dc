"""Commands about machines and pools: nodes, pools, node replace, node return."""

from typing import Annotated

import typer

from bailiff import present, tables
from bailiff_bus.messages import ReplaceNode, RequestBody, ReturnNode

from .jobs import answered, shown
from .session import Session, command

PANEL = "Machines and pools"

Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it again whenever it changes.")]
NodeName = Annotated[str, typer.Argument(help="The node's name.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    command(app, rich_help_panel=PANEL)(nodes)
    command(app, rich_help_panel=PANEL, leave_out=("domain",))(pools)
    node = typer.Typer(help="Operators: say what may be trusted about a node.", no_args_is_help=True)
    command(node, "replace")(replace)
    command(node, "return")(return_)
    app.add_typer(node, name="node", rich_help_panel=PANEL)


async def nodes(session: Session, watch: Watch = False) -> None:
    """Machines, what is free on them, and who holds which GPU. With -o wide each GPU on its own line."""
    async with session.client() as client:

        async def look() -> list[present.NodeRow]:
            return present.nodes((await client.view(session.domain)).pool)

        wide = session.output.value == "wide"
        await shown(session, look, lambda rows: tables.nodes(rows, wide=wide), watch=watch)


async def pools(session: Session, watch: Watch = False) -> None:
    """Every pool: how far its log is, its machines, its jobs."""
    async with session.client() as client:

        async def look() -> list[present.PoolRow]:
            rows = []
            for name in await client.domains():
                view = await client.view(name)
                rows.append(present.pool_row(view.pool, client.now(), view.reader.orphans))
            return rows

        await shown(session, look, tables.pools, watch=watch)


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
