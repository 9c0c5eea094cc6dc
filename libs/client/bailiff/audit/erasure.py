"""Erases personal data: the name of an actor in the archive, and the private data of an ended job."""

from typing import Any

from bailiff.client.client import Client
from bailiff.client.errors import UsageError
from bailiff_bus import topics
from bailiff_bus.port import open_producer
from bailiff_core.humanize import duration_text
from bailiff_core.model.state import ENDED, Job
from bailiff_log.archive import ArchiveError, connected

ALSO_IN = (topics.REQUESTS, topics.NODE_COMMANDS, topics.JOB_LOGS)
"""Topics that retain the same content until Kafka deletes it by age."""


async def erase_spec(client: Client, pool: str, job: Job) -> bool:
    """Writes a tombstone for the job's private data. Returns whether there was any. Raises `ClientError`."""
    if job.phase not in ENDED:
        raise UsageError(f"{job.id} has not ended: without its command it could not be started again", f"bailiff cancel {job.id}")
    key = f"{pool}/{job.id}/{job.spec_digest}".encode()
    newest = b""
    async for message in client.messages(topics.JOB_SPECS.name, await client.spans(topics.JOB_SPECS.name)):
        if message.key == key:
            newest = message.value
    if not newest:
        return False
    async with open_producer(client.bus) as producer:
        await (await producer.send(topics.JOB_SPECS.name, b"", key=key))
    return True


def also_in() -> str:
    """Topics that still have the data, each with its retention."""
    parts = [
        f"{topic.name} (for {duration_text(int(topic.retention.total_seconds()) * 1_000_000)})"
        for topic in ALSO_IN
        if topic.retention is not None
    ]
    return ", ".join(parts)


async def name_actor(address: str, actor: str, name: str) -> None:
    """Stores the name of the actor in the archive."""
    async with connected(address) as connection:
        await _archive(connection)
        await connection.execute(
            """INSERT INTO actors (actor, name) VALUES ($1, $2)
               ON CONFLICT (actor) DO UPDATE SET name = excluded.name, noted_at = now()""",
            actor,
            name,
        )


async def erase_actor(address: str, actor: str) -> bool:
    """Deletes the name of the actor from the archive, and rewrites the table so that its files do not contain it either."""
    async with connected(address) as connection:
        await _archive(connection)
        deleted = await connection.execute("DELETE FROM actors WHERE actor = $1", actor)
        await connection.execute("VACUUM FULL actors")
        return bool(deleted != "DELETE 0")


async def _archive(connection: Any) -> None:
    if await connection.fetchval("SELECT to_regclass('actors') IS NULL"):
        raise ArchiveError("this database is not a Bailiff archive")
