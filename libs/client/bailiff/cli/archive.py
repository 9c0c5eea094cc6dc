"""Commands for whoever keeps the archive: take out what is kept elsewhere."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from bailiff import pruning
from bailiff.friendly import Unfriendly, duration
from bailiff.problem import ExitCode, Problem
from bailiff_core.model.document import parse_duration

from .session import Session, command

Address = Annotated[str, typer.Option("--archive", metavar="ADDRESS", help="The auditor's PostgreSQL: postgresql://…")]
NO_KAFKA = ("kafka", "actor", "key")


def register(audit: typer.Typer) -> None:
    """Add the commands to `bailiff audit`."""
    command(audit, leave_out=("domain", *NO_KAFKA))(prune)


async def prune(
    session: Session,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `bailiff audit export --stretch` wrote.")],
    archive: Address,
    older_than: Annotated[str, typer.Option(metavar="TIME", help="Only records that are so old, as in 365d.")],
    trust: Annotated[
        list[str] | None, typer.Option("--trust", metavar="KEY", help="The log's first sealing key, known from elsewhere.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
) -> None:
    """Take records out of the archive that the folder holds. Seals and the views for people stay; Kafka is not touched.

    The folder is verified first. Only whole stretches go, from the archive's beginning on, and only what is under a seal and
    the same in both.
    """
    done = await pruning.prune(archive, folder, _time("--older-than", older_than), trust or [], dry_run)
    names = [stretch["name"] for stretch in done.stretches]
    found = {"domain": done.domain, "first_seq": done.first_seq, "stretches": names, "next_stays": done.kept, "dry_run": dry_run}

    def said() -> str:
        would, begins = ("would go", "would begin") if dry_run else ("are gone", "begins")
        return "\n".join([
            *[f"records {each['first_seq']} to {each['last_seq']} {would}: {each['name']}" for each in done.stretches],
            f"{done.domain}: the archive {begins} with record {done.first_seq}; {done.kept}",
        ])  # fmt: skip

    session.show(found, said)


def _time(option: str, text: str) -> timedelta:
    try:
        found = parse_duration(duration(int(text) if text.isdigit() else text))
    except (Unfriendly, ValueError) as error:
        raise Problem(ExitCode.USAGE, f"{option}: {error}") from None
    assert isinstance(found, int)
    return timedelta(microseconds=found)
