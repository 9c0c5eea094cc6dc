"""Commands for whoever keeps the archive: take out what is kept elsewhere, say who is who, erase that."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from bailiff import branches, erasing, pruning
from bailiff.friendly import Unfriendly, duration
from bailiff.problem import ExitCode, Problem
from bailiff_core.model.document import parse_duration

from .jobs import no_such_job
from .session import Session, command

Address = Annotated[str, typer.Option("--archive", metavar="ADDRESS", help="The auditor's PostgreSQL: postgresql://…")]
NO_KAFKA = ("kafka", "actor", "key")


def register(audit: typer.Typer) -> None:
    """Add the commands to `bailiff audit`."""
    command(audit, leave_out=("domain", *NO_KAFKA))(prune)
    command(audit, leave_out=("domain", *NO_KAFKA))(name)
    command(audit, "set-aside", leave_out=("kafka", "key"))(set_aside)
    command(audit, leave_out=("actor", "key"))(erase)


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
    names = [stretch.name for stretch in done.stretches]
    found = {"domain": done.domain, "first_seq": done.first_seq, "stretches": names, "next_stays": done.kept, "dry_run": dry_run}

    def said() -> str:
        would, begins = ("would go", "would begin") if dry_run else ("are gone", "begins")
        return "\n".join([
            *[f"{each.records} {would}: {each.name}" for each in done.stretches],
            f"{done.domain}: the archive {begins} with record {done.first_seq}; {done.kept}",
        ])  # fmt: skip

    session.show(found, said)


async def set_aside(
    session: Session,
    archive: Address,
    reason: Annotated[str, typer.Option(help="Why the records are lost. Stays in the archive, and in the seals.")],
) -> None:
    """The log lost records that the archive has, and that was accepted: let the archive follow the log again.

    What the log has no more is set aside, in tables of its own; nothing is deleted. The auditor does it within half a minute,
    and raises an alarm that says which records these were.
    """
    lost = await branches.order(archive, session.domain, reason, session.settings.actor)
    session.show(
        lost, lambda: f"{lost['domain']}: ordered; up to record #{lost['head_seq']}, what the log does not have will be set aside"
    )


async def name(
    session: Session,
    actor: Annotated[str, typer.Argument(help="As it stands in the records.")],
    name: Annotated[str, typer.Argument(help="Who that is.")],
    archive: Address,
) -> None:
    """Say in the archive who an actor is. Nothing else says so, and it can be erased again."""
    await erasing.name_actor(archive, actor, name)
    session.show({"actor": actor, "name": name}, lambda: f"{actor} is {name}")


async def erase(
    session: Session,
    actor: Annotated[str | None, typer.Option("--actor", metavar="ACTOR", help="Who this is; needs --archive.")] = None,
    job: Annotated[
        str | None, typer.Option(metavar="JOB", help="Command, environment and paths of a job that has ended.")
    ] = None,
    archive: Annotated[
        str | None, typer.Option("--archive", metavar="ADDRESS", help="The auditor's PostgreSQL: postgresql://…")
    ] = None,
) -> ExitCode:
    """Erase who an actor is, or the private part of a job, now. The record stays whole: verify, proofs and replay hold."""
    if (actor is None) == (job is None) or (actor is None) != (archive is None):
        raise Problem(ExitCode.USAGE, "erase: say what", "--actor ACTOR --archive ADDRESS, or --job JOB")
    if actor is not None and archive is not None:
        done = await erasing.erase_actor(archive, actor)
        session.show({"actor": actor, "erased": done}, lambda: f"{actor}: {'erased' if done else 'nobody knew who this is'}")
        return ExitCode.DONE if done else ExitCode.NOT_FOUND
    assert job is not None
    async with session.client() as client:
        view = await client.view(session.domain)
        found = view.pool.jobs.get(job)
        if found is None:
            raise no_such_job(job, view.domain)
        done = await erasing.erase_spec(client, view.domain, found)
    left = erasing.also_in()
    session.show(
        {"job": job, "erased": done, "also_in": left},
        lambda: (
            f"{job}: {'erased' if done else 'there was nothing left of it'}. Kafka still has what was sent in {left}; "
            "the machines that it ran on keep its output and its checkpoints."
        ),
    )
    return ExitCode.DONE if done else ExitCode.NOT_FOUND


def _time(option: str, text: str) -> timedelta:
    try:
        found = parse_duration(duration(int(text) if text.isdigit() else text))
    except (Unfriendly, ValueError) as error:
        raise Problem(ExitCode.USAGE, f"{option}: {error}") from None
    assert isinstance(found, int)
    return timedelta(microseconds=found)
