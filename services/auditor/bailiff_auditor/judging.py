"""Which messages continue the log, and what is to be written of them."""

import asyncio
from dataclasses import dataclass, replace

from asyncpg import Connection

from bailiff_bus.archive import packed_laid
from bailiff_bus.archive_rows import record_bytes
from bailiff_bus.people import People
from bailiff_bus.port import Message
from bailiff_bus.walk import Walk
from bailiff_core.records import Wire, record_hash
from bailiff_core.records.merkle import leaf_hash
from bailiff_core.records.wire import UnreadableRecord

from .keeper import Batch, Position, orphan_row

HARMLESS_KNOWN = 10_000
AT_A_TIME = 100  # messages: some milliseconds; then the batch before, which is being written, may take its next step


@dataclass
class Judge:
    """One domain's, from a position on. unreadable: where to stop."""

    walk: Walk
    _people: People
    unreadable: UnreadableRecord | None = None

    @classmethod
    async def at(cls, position: Position, connection: Connection) -> "Judge":
        """As if all that is archived had just been judged."""
        walk, people = Walk(position.head.domain), People(position.id)
        orphans = await connection.fetch(
            'SELECT hash FROM orphans WHERE domain = $1 ORDER BY "offset" DESC LIMIT $2', position.id, HARMLESS_KNOWN
        )
        walk.resume(position.head, position.identity, position.next_offset - 1, (row["hash"] for row in orphans))
        await people.load(connection)
        return cls(walk, people)

    async def judge(self, position: Position, messages: list[Message]) -> Batch:
        """The batch of these messages, up to the first that breaks the chain or that this release cannot read."""
        batch, walk, people, hashes = Batch(), self.walk, self._people, list[bytes]()
        head_offset, next_offset = position.head_offset, position.next_offset
        for number, message in enumerate(messages, 1):
            if number % AT_A_TIME == 0:
                await asyncio.sleep(0)
            try:
                record = walk.read(message)
            except UnreadableRecord as error:
                self.unreadable = error  # what is before it is written first
                break
            if record is None:
                if walk.broken is not None:
                    break
                orphan = walk.latest_orphan
                assert orphan is not None
                digest = record_hash(Wire(message.headers, message.value))
                batch.orphans.append(orphan_row(position.id, message, orphan["kind"], orphan["reason"], digest))
            else:
                hashed = bytes.fromhex(walk.head.hash)
                hashes.append(hashed)
                people.note(record)
                batch.records.append(record_bytes(position.id, message, packed_laid(*walk.laid), record, hashed))
                head_offset = message.offset
            next_offset = message.offset + 1
        batch.people = people.take()
        batch.leaves, tree = [leaf_hash(hashed) for hashed in hashes], position.tree.copy()
        tree.extend(batch.leaves)
        batch.position = replace(
            position, head=walk.head, identity=walk.identity, head_offset=head_offset, next_offset=next_offset, tree=tree,
            broken="",
        )  # fmt: skip
        return batch
