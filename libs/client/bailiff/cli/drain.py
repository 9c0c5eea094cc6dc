"""Commands by which an operator empties a machine: drain, undrain."""

from typing import Annotated, Literal

import typer

from bailiff.friendly import Unfriendly, duration
from bailiff.present.drains import affected_rows
from bailiff.problem import ExitCode, Problem
from bailiff.tables.nodes import affected_table
from bailiff_bus.messages import DrainNode, UndrainNode
from bailiff_core.model.document import parse_duration
from bailiff_core.model.pool import Drain, Node, Pool
from bailiff_core.words import duration_text

from .jobs import Reason, answered
from .session import Session, command

NodeName = Annotated[str, typer.Argument(help="The node's name.")]
Mode = Literal["graceful", "quick", "fast"]
WHAT = {
    "graceful": "move where there is room, or may finish first",
    "quick": "leave now, with their whole grace",
    "fast": "leave now, with the short grace",
}


PANEL = "Machines and pools"


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    command(app, rich_help_panel=PANEL)(drain)
    command(app, rich_help_panel=PANEL)(undrain)


async def drain(
    session: Session,
    node: NodeName,
    graceful: Annotated[
        bool,
        typer.Option("--graceful", help="Jobs move where there is room; others may finish until the deadline (the default)."),
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Jobs leave now, with their whole grace.")] = False,
    fast: Annotated[bool, typer.Option("--fast", help="Jobs leave now, with the policy's short grace.")] = False,
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help="By when it is to be empty, from now, as in 30m. Default: whenever.")
    ] = None,
    reason: Reason = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show whom it concerns.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Operators: empty a machine. Nothing new is placed there; whom it concerns, and where each goes, is shown first."""
    mode = _mode(graceful, quick, fast)
    within = _within(deadline)
    async with session.client() as client:
        view = await client.view(session.domain)
        pool = view.pool
        found = node_of(pool, node)
        until = None if within is None else pool.now + within
        rows = affected_rows(pool, found, Drain(0, mode, reason, until))
        by = f" within {duration_text(within)}" if within is not None else ""
        if session.for_people:
            session.out.print(affected_table(rows))
            session.say(f"{node} gets nothing new; its jobs {WHAT[mode]}{by}")
        if dry_run:
            session.say("nothing was asked for (--dry-run)")
        elif not yes and not session.for_people:
            advice = "say --yes, or --dry-run to see whom it concerns"
            raise Problem(ExitCode.USAGE, f"drain {node}: programs are not asked", advice)
        elif not yes and not typer.confirm(f"Drain {node}?"):
            raise Problem(ExitCode.USAGE, "nothing was asked for")
        seq = None
        if not dry_run:
            body = DrainNode(node=node, mode=mode, deadline=within, reason=reason)
            seq = (await answered(client, await client.request(view.domain, body))).seq
            session.say(f"{node} is drained  ({view.domain}#{seq}); who is left there: bailiff nodes")
        if not session.for_people:
            session.show({"node": node, "pool": view.domain, "mode": mode, "seq": seq, "affected": rows}, lambda: "")


async def undrain(session: Session, node: NodeName, reason: Reason = "") -> None:
    """Operators: let a drained machine take work again. Who was told to leave leaves all the same; who was not stays."""
    async with session.client() as client:
        where = await client.domain(session.domain)
        outcome = await answered(client, await client.request(where.name, UndrainNode(node=node, reason=reason)))
        result = {"node": node, "pool": where.name, "seq": outcome.seq}
        session.show(result, lambda: f"{node} takes work again  ({where.name}#{outcome.seq})")


def node_of(pool: Pool, name: str) -> Node:
    """The node. Raises `Problem` where the pool has none of that name."""
    if name not in pool.node_numbers:
        raise Problem(ExitCode.NOT_FOUND, f"there is no node {name!r} in {pool.domain}", "those that are there: bailiff nodes")
    return pool.nodes[pool.node_numbers[name]]


def _mode(graceful: bool, quick: bool, fast: bool) -> Mode:
    said = [name for name, given in (("graceful", graceful), ("quick", quick), ("fast", fast)) if given]
    if len(said) > 1:
        raise Problem(ExitCode.USAGE, f"drain: --{said[0]} and --{said[1]} contradict each other", "say one of them")
    return "quick" if quick else "fast" if fast else "graceful"


def _within(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        found = parse_duration(duration(int(text) if text.isdigit() else text))
    except (Unfriendly, ValueError) as error:
        raise Problem(ExitCode.USAGE, f"--deadline: {error}") from None
    assert isinstance(found, int)
    return found
