"""Sources of a log with its seals: Kafka, the archive in PostgreSQL, an exported file, or a folder of segments."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING

from bailiff.client.client import Client
from bailiff.client.errors import ClientError, NotFound, UsageError
from bailiff_bus import topics
from bailiff_bus.messages.seals import CheckpointCosigned, CheckpointRefused, LogSealed, SealingKey, SealsInvalidated
from bailiff_bus.port import Message
from bailiff_core.humanize import duration_text
from bailiff_core.records import ChainHead
from bailiff_core.records.merkle import Frontier
from bailiff_log.archive import ArchiveError, open_archive
from bailiff_log.cosignatures import CosignatureBody, Cosigned, Kept, parse_cosignature
from bailiff_log.seals import SealBody, chain_of_bodies, parse_seal

from .log_files import LogFile
from .object_path import AnyPath, ObjectPath
from .segments import SegmentFolder, seal_from

if TYPE_CHECKING:
    from asyncpg import Connection

FIRST_SEAL_US = 300_000_000
"""From the log's first record, as the auditor's settings have it by default."""


@dataclass
class Source:
    """One pool's log.

    Attributes:
        read: Reads its messages, from the first one.
        messages: Of the first reading.
        start: The chain head before its first message.
        tree: The Merkle tree before its first message.
        path: The file or folder; None for Kafka and the archive.
        folder: Set for a folder of segments.
        cosignatures: What witnesses published.
    """

    pool: str
    partition: int
    read: Callable[[], AsyncGenerator[Message, None]]
    seals: Sequence[SealBody]
    start: ChainHead
    tree: Frontier = field(default_factory=Frontier)
    path: AnyPath | None = None
    folder: SegmentFolder | None = None
    cosignatures: Sequence[CosignatureBody] = ()
    messages: AsyncGenerator[Message, None] = field(init=False)

    def __post_init__(self) -> None:
        self.messages = self.read()

    def from_its_beginning(self, what: str) -> None:
        """Raises `ClientError` if the log's first records are missing, which `what` needs."""
        if self.start.next_seq:
            where = self.path if self.path is not None else "the archive"
            text = f"{where} begins with record {self.start.next_seq}: {what} needs the log from its first record on"
            raise UsageError(text, "use the folder with all segments, with a manifest that names them")


async def not_sealed(pool: str, read: Callable[[], AsyncGenerator[Message, None]]) -> ClientError:
    """The error that a log has no seal yet, with when the first is due.

    Args:
        read: Reads its messages, from the first one.
    """
    now = time_ns() // 1000
    async with aclosing(read()) as messages:
        first = await anext(messages, None)
    due = (now if first is None else first.time) + FIRST_SEAL_US - now
    when = f"is due in {duration_text(due)}" if due > 0 else f"was due {duration_text(-due)} ago: see that the auditor runs"
    advice = f"the first one {when} (unless BAILIFF_SEAL_SECONDS says otherwise)"
    return NotFound(f"{pool} has no seal yet", advice)


async def from_kafka(client: Client, pool: str | None, witnesses: Collection[str] = ()) -> Source:
    """The current log. Seals and cosignatures are read first, so that it cannot be shorter than sealed.

    Args:
        witnesses: The keys of those that are known. Of what others say, little is kept.
    """
    where = await client.pool(pool)
    sealed = [body async for each in _all(client, topics.SEALS) if (body := parse_seal(each, where.name))]
    keys, kept, cosigned = chain_of_bodies(where.name, sealed)[0].keys, Kept(witnesses), list[CosignatureBody]()
    async for message in _all(client, topics.COSIGNATURES):
        said = parse_cosignature(message, where.name)
        found = Cosigned.published(said, None if said.witness in witnesses else keys) if said is not None else None
        if said and found and kept.add(type(said).__name__, said.witness, found.checkpoint.origin, found.checkpoint.size):
            cosigned.append(said)
    span = {where.partition: (await client.audit_spans())[where.partition]}
    read = partial(client.messages, topics.AUDIT.name, span)
    return Source(where.name, where.partition, read, sealed, ChainHead(where.name), cosignatures=cosigned)


async def _all(client: Client, topic: topics.Topic) -> AsyncGenerator[Message, None]:
    """All messages of a topic; none if it does not exist, as after an update."""
    with suppress(KeyError):
        async for message in client.messages(topic.name, await client.bus.spans(topic.name)):
            yield message


def from_file(path: AnyPath, only: slice = slice(None)) -> Source:
    """Reads an exported log, or a folder of segments, which may be in object storage.

    Args:
        only: The numbers of the segments to read; None: all.
    """
    if isinstance(path, ObjectPath) or path.is_dir():
        folder = SegmentFolder(path, only)
        return Source(
            folder.pool,
            folder.partition,
            folder.messages,
            folder.seals,
            folder.start,
            folder.tree,
            path,
            folder,
            folder.cosignatures,
        )
    log = LogFile(path)
    try:
        seals = [seal_from(each) for each in log.seals]
        cosigned = [CheckpointCosigned.model_validate_json(json.dumps(each)) for each in log.cosignatures]
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}:1: a seal or cosignature cannot be read: {error!r}") from None
    return Source(log.pool, log.partition, log.messages, seals, ChainHead(log.pool), path=path, cosignatures=cosigned)


@asynccontextmanager
async def from_archive(address: str, pool: str | None) -> AsyncIterator[Source]:
    """The log in the auditor's archive. Raises `ArchiveError`."""
    async with open_archive(address, pool) as log:
        kinds: dict[str, type[SealBody]] = {
            "seals": LogSealed,
            "sealing_keys": SealingKey,
            "fork_seals": LogSealed,
            "forks": SealsInvalidated,
        }
        parts = [
            f"SELECT \"offset\", '{table}' AS kind, data FROM {table} WHERE pool = $1 AND data IS NOT NULL"  # noqa: S608
            for table in kinds
        ]
        rows = await log.connection.fetch(f'{" UNION ALL ".join(parts)} ORDER BY "offset"', log.id)
        try:
            sealed = [kinds[row["kind"]].model_validate_json(row["data"]) for row in rows]
        except ValueError as error:
            raise ArchiveError(f"a seal in it cannot be read: {error}") from None
        cosigned = await _archived_cosignatures(log.connection, log.id)
        yield Source(log.pool, log.partition, log.messages, sealed, log.start, log.tree, cosignatures=cosigned)


async def _archived_cosignatures(connection: "Connection", pool: int) -> list[CosignatureBody]:
    rows = await connection.fetch('SELECT kind, data FROM cosignatures WHERE pool = $1 ORDER BY "offset"', pool)
    kinds: dict[str, type[CosignatureBody]] = {"CheckpointCosigned": CheckpointCosigned, "CheckpointRefused": CheckpointRefused}
    try:
        return [kinds[row["kind"]].model_validate_json(row["data"]) for row in rows]
    except (KeyError, ValueError) as error:
        raise ArchiveError(f"a cosignature in it cannot be read: {error}") from None
