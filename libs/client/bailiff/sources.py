"""Where a log is read from: Kafka, the archive in PostgreSQL, an exported file, or a folder of stretches; with its seals."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bailiff_bus import topics
from bailiff_bus.archive import NotInArchive, open_archive
from bailiff_bus.messages import LogSealed, SealingKey, SealsSetAside
from bailiff_bus.port import Message
from bailiff_bus.seals import SealBody, seal_in
from bailiff_core.records import ChainHead
from bailiff_core.records.merkle import Frontier

from .client import Client
from .logfile import LogFile
from .problem import ExitCode, Problem
from .stretches import StretchFolder, seal_from


@dataclass
class Source:
    """One domain's log. start, tree: where it stands before its first message.

    path: of the file or folder; None: it is read where it grows. folder: of stretches, if it is one.
    """

    domain: str
    partition: int
    messages: AsyncGenerator[Message, None]
    seals: Sequence[SealBody]
    start: ChainHead
    tree: Frontier = field(default_factory=Frontier)
    path: Path | None = None
    folder: StretchFolder | None = None

    def from_its_beginning(self, what: str) -> None:
        """Raises `Problem` where the log's first records are not in it, which `what` needs."""
        if self.start.next_seq:
            where = self.path if self.path is not None else "the archive"
            text = f"{where} begins with record {self.start.next_seq}: {what} needs the log from its first record on"
            raise Problem(ExitCode.USAGE, text, "use the folder that holds all of its stretches, with a manifest that names them")


async def from_kafka(client: Client, domain: str | None) -> Source:
    """The log as it is now. Its seals are read first, so that it cannot be shorter than they say."""
    where = await client.domain(domain)
    sealed = []
    try:
        spans = await client.bus.spans(topics.SEALS.name)
    except KeyError:
        spans = {}  # made by a release that had no seals
    async for message in client.messages(topics.SEALS.name, spans):
        body = seal_in(message, where.name)
        if body is not None:
            sealed.append(body)
    span = {where.partition: (await client.audit_spans())[where.partition]}
    messages = client.messages(topics.AUDIT.name, span)
    return Source(where.name, where.partition, messages, sealed, ChainHead(where.name))


def from_file(path: Path) -> Source:
    """An exported log, or a folder of stretches."""
    if path.is_dir():
        folder = StretchFolder(path)
        return Source(folder.domain, folder.partition, folder.messages(), folder.seals, folder.start, folder.tree, path, folder)
    log = LogFile(path)
    try:
        seals = [seal_from(each) for each in log.seals]
    except (KeyError, TypeError, ValueError) as error:
        raise Problem(ExitCode.USAGE, f"{path}:1: a seal cannot be read: {error!r}") from None
    return Source(log.domain, log.partition, log.messages(), seals, ChainHead(log.domain), path=path)


@asynccontextmanager
async def from_archive(address: str, domain: str | None) -> AsyncIterator[Source]:
    """The auditor's archive."""
    try:
        async with open_archive(address, domain) as log:
            kinds: dict[str, type[SealBody]] = {"seals": LogSealed, "sealing_keys": SealingKey}
            if await log.connection.fetchval("SELECT to_regclass('branches') IS NOT NULL"):  # an earlier release had none
                kinds |= {"branch_seals": LogSealed, "branches": SealsSetAside}
            parts = [
                f"SELECT \"offset\", '{table}' AS kind, data FROM {table} WHERE domain = $1 AND data IS NOT NULL"  # noqa: S608
                for table in kinds
            ]
            rows = await log.connection.fetch(f'{" UNION ALL ".join(parts)} ORDER BY "offset"', log.id)
            try:
                sealed = [kinds[row["kind"]].model_validate_json(row["data"]) for row in rows]
            except ValueError as error:
                raise NotInArchive(f"a seal in it cannot be read: {error}") from None
            yield Source(log.domain, log.partition, log.messages(), sealed, log.start, log.tree)
    except NotInArchive as error:
        raise Problem(ExitCode.UNREACHABLE, f"the archive: {error}") from None
