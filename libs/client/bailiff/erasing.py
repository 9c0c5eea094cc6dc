"""Erasing what is personal: who an actor is, which only the archive says, and the private part of a job that has ended."""

from typing import Any

from bailiff_bus import topics
from bailiff_bus.archive import NotInArchive, connected
from bailiff_core.model.pool import ENDED, Job
from bailiff_core.words import duration_text

from .client import Client
from .problem import ExitCode, Problem

ALSO_IN = (topics.REQUESTS, topics.NODE_COMMANDS, topics.JOB_LOGS)
"""Where the same content lies until Kafka deletes it by age."""


async def erase_spec(client: Client, domain: str, job: Job) -> bool:
    """Write a tombstone in place of the job's private part. Returns whether there was any. Raises `Problem`."""
    if job.phase not in ENDED:
        text = f"{job.id} has not ended: without its command it could not be started again"
        raise Problem(ExitCode.USAGE, text, f"bailiff cancel {job.id}")
    key = f"{domain}/{job.id}/{job.spec_digest}".encode()
    newest = b""
    async for message in client.messages(topics.JOB_SPECS.name, await client.spans(topics.JOB_SPECS.name)):
        if message.key == key:
            newest = message.value
    if not newest:
        return False
    producer = await client.bus.producer()
    try:
        await (await producer.send(topics.JOB_SPECS.name, b"", key=key))
    finally:
        await producer.close(1.0)
    return True


def also_in() -> str:
    """Where it is for how much longer, in words."""
    parts = [
        f"{topic.name} (for {duration_text(int(topic.retention.total_seconds()) * 1_000_000)})"
        for topic in ALSO_IN
        if topic.retention is not None
    ]
    return ", ".join(parts)


async def name_actor(address: str, actor: str, name: str) -> None:
    """Say in the archive who this is."""
    try:
        async with connected(address) as connection:
            await _archive(connection)
            await connection.execute(
                """INSERT INTO actors (actor, name) VALUES ($1, $2)
                   ON CONFLICT (actor) DO UPDATE SET name = excluded.name, noted_at = now()""",
                actor, name,
            )  # fmt: skip
    except NotInArchive as error:
        raise Problem(ExitCode.UNREACHABLE, f"the archive: {error}") from None


async def erase_actor(address: str, actor: str) -> bool:
    """Take out of the archive who this is, and rewrite the table, so that its file has no trace either."""
    try:
        async with connected(address) as connection:
            await _archive(connection)
            deleted = await connection.execute("DELETE FROM actors WHERE actor = $1", actor)
            await connection.execute("VACUUM FULL actors")
            return bool(deleted != "DELETE 0")
    except NotInArchive as error:
        raise Problem(ExitCode.UNREACHABLE, f"the archive: {error}") from None


async def _archive(connection: Any) -> None:
    if await connection.fetchval("SELECT to_regclass('actors') IS NULL"):
        raise NotInArchive("this database is no archive of Bailiff's")
