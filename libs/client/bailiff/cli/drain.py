"""`bailiff drain`: empties a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bailiff.client.answers import not_found, require_accepted
from bailiff.client.errors import NodeNotFound, UsageError
from bailiff_core.humanize import duration_text, window_text

from .jobs import micros_of
from .parameters import NodeName, Reason
from .policy_confirmation import on_terminal
from .session import Session, command

if TYPE_CHECKING:
    from bailiff_core.model.state import Node, PoolState

Mode = Literal["graceful", "quick", "fast"]
WHAT = {
    "graceful": "are migrated where possible, or may finish",
    "quick": "are evicted now with their full grace period",
    "fast": "are evicted now with the short grace period",
}


@command("drain")
async def drain(
    session: Session,
    node: NodeName,
    graceful: Annotated[
        bool, typer.Option("--graceful", help="Migrate jobs where possible; others may finish until the deadline (default).")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Evict jobs now with their full grace period.")] = False,
    fast: Annotated[bool, typer.Option("--fast", help="Evict jobs now with the policy's short grace period.")] = False,
    deadline: Annotated[str | None, typer.Option(metavar="TIME", help="Deadline from now, as in 30m. Default: none.")] = None,
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Not now, but for maintenance: 'Sat 08:00', 'tomorrow 08:00', or ISO 8601."),
    ] = None,
    duration: Annotated[str | None, typer.Option("--for", metavar="TIME", help="How long it lasts, as in 4h.")] = None,
    tz: Annotated[str | None, typer.Option("--tz", help="Time zone of --from. Default: that of this machine.")] = None,
    reason: Reason = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the affected jobs.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Drain a node: place nothing new there and evict its jobs. The affected jobs are shown first.

    With --from and --for: at that time. Its jobs are gone by then, and afterwards it takes jobs again.
    """
    from bailiff.client.moments import moment_of, zone
    from bailiff.render.serializers.victims import affected_by
    from bailiff.tables.nodes import affected_table
    from bailiff_core.model.state import Drain
    from bailiff_core.records.node_requests import DrainNode
    from bailiff_core.records.wire import time_text

    mode = _mode(graceful, quick, fast)
    planned = begin is not None
    if planned != (duration is not None) or (planned and (graceful or quick or fast or deadline is not None)):
        raise UsageError("drain: --from needs --for, and neither goes with a mode or --deadline")
    within = None if deadline is None else micros_of("--deadline", deadline)
    async with session.client() as client:
        projection = await client.projection(session.pool)
        state = projection.state
        found = node_of(state, node)
        until = None if within is None else state.now + within
        lasts = None if duration is None else micros_of("--for", duration)
        at = None if begin is None else moment_of("--from", begin, client.now(), zone(tz))
        when = "" if at is None or lasts is None else window_text(at, at + lasts)
        asked = Drain(0, "quick" if planned else mode, reason, until)
        rows = affected_by(state, found, asked)
        by = f" within {duration_text(within)}" if within is not None else ""
        if session.for_people:
            session.out.print(affected_table(rows, asked))
            at_the_time = f"{when}: the jobs that run on it then leave before; these do now"
            session.say(at_the_time if planned else f"{node} becomes unschedulable; its jobs {WHAT[mode]}{by}")
        if dry_run:
            session.say("nothing was requested (--dry-run)")
        elif not yes and not (session.for_people and on_terminal()):
            raise UsageError(f"drain {node}: confirmation is required", "use --yes, or --dry-run to see the affected jobs")
        elif not yes and not typer.confirm(f"Drain {node}?"):
            raise UsageError(f"drain {node}: not confirmed, nothing was requested")
        seq = None
        if not dry_run:
            body = DrainNode(node=node, mode=mode, deadline=within, reason=reason, begin=at, duration=lasts)
            seq = (await require_accepted(client, await client.request(projection.pool, body))).seq
            done = f"{node} has maintenance, {when}" if planned else f"{node} is draining"
            more = "to cancel it: bailiff undrain" if planned else "remaining jobs: bailiff nodes"
            session.say(f"{done}  ({projection.pool}#{seq}); {more}{f' {node}' if planned else ''}")
        if not session.for_people:
            times = None if at is None or lasts is None else {"begin": time_text(at), "end": time_text(at + lasts)}
            row = {"node": node, "pool": projection.pool, "mode": mode, **(times or {}), "seq": seq, "affected": rows}
            session.show(row, lambda: "")


def node_of(state: PoolState, name: str) -> Node:
    """The node.

    Raises:
        NodeNotFound: The pool has no node of that name.
    """
    if name not in state.node_numbers:
        raise not_found(NodeNotFound, name, state)
    return state.nodes[state.node_numbers[name]]


def _mode(graceful: bool, quick: bool, fast: bool) -> Mode:
    modes = [name for name, given in (("graceful", graceful), ("quick", quick), ("fast", fast)) if given]
    if len(modes) > 1:
        raise UsageError(f"drain: --{modes[0]} and --{modes[1]} are mutually exclusive", "use one of them")
    return "quick" if quick else "fast" if fast else "graceful"
