"""Commands for the archive: prune, fork, identify, erase."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from bailiff.cli.jobs import micros_of
from bailiff.cli.log_source import Trust
from bailiff.cli.session import LOCAL, Session, command
from bailiff.client.answers import job_in
from bailiff.client.errors import ExitCode, UsageError

ARCHIVE = typer.Option("--archive", metavar="ADDRESS", help="The auditor's PostgreSQL: postgresql://…")
Address = Annotated[str, ARCHIVE]


@command("audit prune", leave_out=LOCAL)
async def prune(
    session: Session,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder written by `bailiff audit export --segment`.")],
    archive: Address,
    older_than: Annotated[str, typer.Option(metavar="TIME", help="Only records older than this, as in 365d.")],
    trust: Trust = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
) -> None:
    """Delete records from the archive that the folder contains. Seals and derived tables are kept; Kafka is not changed.

    The folder is verified first. Only whole segments from the beginning of the archive are deleted, and only records that are
    sealed and identical in both.
    """
    from bailiff.audit import pruning

    age = timedelta(microseconds=micros_of("--older-than", older_than))
    result = await pruning.prune(archive, folder, age, trust or [], dry_run)
    names = [segment.name for segment in result.segments]
    found = {
        "pool": result.pool,
        "first_seq": result.first_seq,
        "segments": names,
        "stopped_because": result.kept,
        "dry_run": dry_run,
    }

    def text() -> str:
        would, begins = ("would be deleted", "would begin") if dry_run else ("deleted", "begins")
        return "\n".join(
            [
                *[f"{each.records} {would}: {each.name}" for each in result.segments],
                f"{result.pool}: the archive {begins} with record {result.first_seq}; {result.kept}",
            ]
        )

    session.show(found, text)


@command("audit fork", leave_out=("kafka", "key"))
async def fork(
    session: Session,
    archive: Address,
    reason: Annotated[str, typer.Option(help="Why the records were lost. Kept in the archive and in the seals.")],
) -> None:
    """Let the archive follow a log that lost records, after the truncation was accepted.

    Archived records that the log no longer has are moved to the fork tables; nothing is deleted. The auditor does this within
    30 seconds and raises an alarm that names the records.
    """
    from bailiff.audit import forks

    lost = await forks.order(archive, session.pool, reason, session.settings.actor)
    session.show(
        lost,
        lambda: (
            f"{lost['pool']}: requested; up to record #{lost['head_seq']}, records that the log lacks will be moved to a fork"
        ),
    )


@command("audit identify", leave_out=LOCAL)
async def identify(
    session: Session,
    actor: Annotated[str, typer.Argument(help="The actor id in the records.")],
    name: Annotated[str, typer.Argument(help="The name.")],
    archive: Address,
) -> None:
    """Store the name of an actor in the archive. It is stored nowhere else and can be erased."""
    from bailiff.audit import erasure

    await erasure.name_actor(archive, actor, name)
    session.show({"actor": actor, "name": name}, lambda: f"{actor} is {name}")


@command("audit erase", leave_out=("actor", "key"))
async def erase(
    session: Session,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="ACTOR", help="Erase the name of this actor; needs --archive.")
    ] = None,
    job: Annotated[
        str | None, typer.Option(metavar="JOB", help="Erase command, environment and paths of this ended job.")
    ] = None,
    archive: Annotated[str | None, ARCHIVE] = None,
) -> ExitCode:
    """Erase the name of an actor, or the private data of a job. The log is unchanged: verify, proofs and replay still pass."""
    from bailiff.audit import erasure

    if (actor is None) == (job is None) or (actor is None) != (archive is None):
        raise UsageError("erase: nothing to erase", "--actor ACTOR --archive ADDRESS, or --job JOB")
    if actor is not None and archive is not None:
        result = await erasure.erase_actor(archive, actor)
        session.show({"actor": actor, "erased": result}, lambda: f"{actor}: {'erased' if result else 'no name was stored'}")
        return ExitCode.DONE if result else ExitCode.NOT_FOUND
    assert job is not None
    async with session.client() as client:
        projection = await client.projection(session.pool)
        _, found = await job_in(client, projection.pool, job)
        result = await erasure.erase_spec(client, projection.pool, found)
    also_in = erasure.also_in()
    session.show(
        {"job": job, "erased": result, "also_in": also_in},
        lambda: (
            f"{job}: {'erased' if result else 'nothing was left to erase'}. Kafka retains what was sent in {also_in}; "
            "its nodes keep its output and its checkpoints."
        ),
    )
    return ExitCode.DONE if result else ExitCode.NOT_FOUND
