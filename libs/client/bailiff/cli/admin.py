"""Commands for operators: create topics, accept a truncated log."""

from pathlib import Path
from typing import Annotated

import typer

from bailiff.client.answers import require_accepted

from .session import Session, command

PANEL = "Operators"


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    topics = typer.Typer(help="Create Kafka topics.", no_args_is_help=True)
    topics.callback()(_nothing)
    command(topics, "create", leave_out=("pool", "actor", "key"))(topics_create)
    app.add_typer(topics, name="topics", rich_help_panel=PANEL)
    log = typer.Typer(help="Recover a truncated audit log.", no_args_is_help=True)
    log.callback()(_nothing)
    command(log, "accept-truncation")(accept_truncation)
    app.add_typer(log, name="log", rich_help_panel=PANEL)


def _nothing() -> None:
    """Callback: without one, Typer turns a group with one command into that command."""


async def topics_create(
    session: Session,
    pools: Annotated[Path | None, typer.Option(metavar="FILE", help="File that declares the pools. Also: BAILIFF_POOLS.")] = None,
    replication: Annotated[int | None, typer.Option(help="Replication factor. Default: 3 if there are enough brokers.")] = None,
) -> None:
    """Create missing topics, with one log partition per declared pool. Idempotent."""
    from bailiff_bus.topic_admin import create_topics
    from bailiff_service.settings import read_pools

    declared = read_pools(pools or session.settings.pools)
    partitions = max(pool.partition for pool in declared) + 1
    created = await create_topics(session.settings.kafka, partitions, replication)
    session.show(created, lambda: "\n".join(created) if created else "All topics exist.")


async def accept_truncation(
    session: Session,
    epoch: Annotated[int, typer.Option(help="The epoch named by the alarm.")],
    seq: Annotated[int, typer.Option(help="The highest seq that an agent has seen, from the alarm.")],
    reason: Annotated[str, typer.Option(help="Recorded in the audit log.")],
) -> None:
    """Accept a log that is shorter than what agents have seen, and continue. The loss is recorded."""
    from bailiff_bus.messages import AcceptTruncation

    async with session.client() as client:
        pool = await client.pool(session.pool)
        sent = await client.request(pool.name, AcceptTruncation(epoch=epoch, seq=seq, reason=reason))
        outcome = await require_accepted(client, sent)
        session.show({"pool": pool.name, "seq": outcome.seq}, lambda: f"accepted as {pool.name}#{outcome.seq}")
