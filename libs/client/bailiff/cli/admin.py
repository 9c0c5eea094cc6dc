"""Commands for operators: create topics, make keys, accept a loss."""

from pathlib import Path
from typing import Annotated

import typer

from bailiff.problem import ExitCode, Problem
from bailiff.settings import key_text, read_key
from bailiff_bus.identity import key_id, new_private_key
from bailiff_bus.messages import AcceptTruncation
from bailiff_bus.settings import read_pools
from bailiff_bus.topics import create_topics

from .jobs import answered
from .session import Session, command

PANEL = "Operators"


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    topics = typer.Typer(help="Kafka's topics.", no_args_is_help=True)
    topics.callback()(_nothing)
    command(topics, "create", leave_out=("domain", "actor", "key"))(topics_create)
    app.add_typer(topics, name="topics", rich_help_panel=PANEL)
    log = typer.Typer(help="The audit log, when something happened to it.", no_args_is_help=True)
    log.callback()(_nothing)
    command(log, "accept-truncation")(accept_truncation)
    app.add_typer(log, name="log", rich_help_panel=PANEL)
    key = typer.Typer(help="Keys that sign requests.", no_args_is_help=True)
    command(key, "new", leave_out=("domain", "actor", "key", "kafka", "settings"))(key_new)
    command(key, "show", leave_out=("domain", "actor", "key", "kafka", "settings"))(key_show)
    app.add_typer(key, name="key", rich_help_panel=PANEL)


def _nothing() -> None:
    """A group of one command stays a group only if it has something of its own."""


async def topics_create(
    session: Session,
    pools: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file that declares the pools. Also: BAILIFF_POOLS.")
    ] = None,
    replication: Annotated[
        int | None, typer.Option(help="Copies of each topic. Default: 3 where there are brokers for it.")
    ] = None,
) -> None:
    """Create the topics that are missing, with a log for each declared pool. May be run again at any time."""
    declared = read_pools(pools or session.settings.pools)
    partitions = max(pool.partition for pool in declared) + 1
    done = await create_topics(session.settings.kafka, partitions, replication)
    session.show(done, lambda: "\n".join(done) if done else "All topics are there already.")


async def accept_truncation(
    session: Session,
    epoch: Annotated[int, typer.Option(help="The epoch that the alarm names.")],
    seq: Annotated[int, typer.Option(help="The highest seq that an agent had obeyed, from the alarm.")],
    reason: Annotated[str, typer.Option(help="Stands in the audit log.")],
) -> None:
    """Go on with a log that is shorter than what agents have obeyed. The loss itself becomes a record."""
    async with session.client() as client:
        where = await client.domain(session.domain)
        asked = await client.request(where.name, AcceptTruncation(epoch=epoch, seq=seq, reason=reason))
        outcome = await answered(client, asked)
        session.show({"pool": where.name, "seq": outcome.seq}, lambda: f"accepted as {where.name}#{outcome.seq}")


async def key_new(session: Session, file: Annotated[Path, typer.Argument(help="Where to write it; must not exist.")]) -> None:
    """Make a private key; its public half is the `keyid` that the policy names."""
    private = new_private_key()
    try:
        file.touch(mode=0o600, exist_ok=False)
        file.write_text(key_text(private), encoding="utf-8")
    except FileExistsError:
        raise Problem(ExitCode.USAGE, f"{file} exists already", "a key is never overwritten: choose another name") from None
    except OSError as error:
        raise Problem(ExitCode.USAGE, f"{file}: cannot be written: {error.strerror}") from None
    _show_key(session, private)


async def key_show(session: Session, file: Annotated[Path, typer.Argument(help="A private key.")]) -> None:
    """The public half of a key."""
    _show_key(session, read_key(file))


def _show_key(session: Session, private: bytes) -> None:
    session.show({"keyid": key_id(private)}, lambda: f"keyid {key_id(private)}\nname it in the policy under identity.keys")
