"""Commands for operators: create topics, accept a truncated log."""

from typing import Annotated

import typer

from bailiff.client.answers import require_accepted

from .parameters import PoolsFile, Reason
from .session import Session, command


@command("topics create", leave_out=("pool", "actor", "key"))
async def topics_create(
    session: Session,
    pools: PoolsFile = None,
    replication: Annotated[int | None, typer.Option(help="Replication factor. Default: 3 if there are enough brokers.")] = None,
) -> None:
    """Create missing topics, with one log partition per declared pool. Idempotent."""
    from bailiff_bus.topic_admin import create_topics
    from bailiff_service.settings import read_pools

    declared = read_pools(pools or session.settings.pools)
    partitions = max(pool.partition for pool in declared) + 1
    created = await create_topics(session.settings.kafka, partitions, replication)
    session.show(created, lambda: "\n".join(created) if created else "All topics exist.")


@command("log accept-truncation")
async def accept_truncation(
    session: Session,
    epoch: Annotated[int, typer.Option(help="The epoch named by the alarm.")],
    seq: Annotated[int, typer.Option(help="The highest seq that an agent has seen, from the alarm.")],
    reason: Reason,
) -> None:
    """Accept a log that is shorter than what agents have seen, and continue. The loss is recorded."""
    from bailiff_core.records.pool_requests import AcceptTruncation

    async with session.client() as client:
        pool = await client.pool(session.pool)
        sent = await client.request(pool.name, AcceptTruncation(epoch=epoch, seq=seq, reason=reason))
        outcome = await require_accepted(client, sent)
        session.show({"pool": pool.name, "seq": outcome.seq}, lambda: f"accepted as {pool.name}#{outcome.seq}")
