"""Which messages continue the log, and what is to be written of them."""

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

    @property
    def stopped(self) -> bool:
        """Whether nothing can be judged from here on: the chain is broken, or this release cannot read on."""
        return self.unreadable is not None or self.walk.broken is not None

    def judge(self, batch: Batch, messages: list[Message]) -> None:
        """Add these messages to the batch, up to the first that breaks the chain or that this release cannot read."""
        walk, people, domain, hashes = self.walk, self._people, batch.before.id, list[bytes]()
        head_offset, next_offset = batch.after.head_offset, batch.after.next_offset
        for message in messages:
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
                batch.orphans.append(orphan_row(domain, message, orphan["kind"], orphan["reason"], digest))
            else:
                hashed = bytes.fromhex(walk.head.hash)
                hashes.append(hashed)
                people.note(record)
                batch.records.append(record_bytes(domain, message, packed_laid(*walk.laid), record, hashed))
                head_offset = message.offset
            next_offset = message.offset + 1
        leaves, tree = [leaf_hash(hashed) for hashed in hashes], batch.after.tree.copy()
        tree.extend(leaves)
        batch.leaves += leaves
        batch.after = replace(
            batch.after, head=walk.head, identity=walk.identity, head_offset=head_offset, next_offset=next_offset, tree=tree,
            broken="",
        )  # fmt: skip

    def take_people(self) -> dict[str, str]:
        """What all that was judged since the last time changes in the people's tables, as `People.take`."""
        return self._people.take()
