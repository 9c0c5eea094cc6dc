"""Which messages continue the log, and what is to be written of them: by this process alone, or with a helper."""

from contextlib import suppress
from dataclasses import dataclass, replace

from asyncpg import Connection

from bailiff_bus.archive import packed
from bailiff_bus.archive_rows import record_bytes
from bailiff_bus.people import People
from bailiff_bus.port import Message
from bailiff_bus.walk import Walk
from bailiff_core.records import Record, Wire, record_hash
from bailiff_core.records.merkle import leaf_hash
from bailiff_core.records.wire import UnreadableRecord

from .beside import Beside
from .keeper import Batch, Position, orphan_row

HARMLESS_KNOWN = 10_000


@dataclass
class Judge:
    """One domain's, from a position on. helped: a second process decodes, and has the people. unreadable: where to stop."""

    walk: Walk
    _people: People
    helped: bool = False
    unreadable: UnreadableRecord | None = None
    _helper: Beside | None = None

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

    async def call_help(self) -> None:
        """Much lies ahead. Until the helper is ready this process goes on alone."""
        with suppress(OSError):  # no room for another process: then without one
            self._helper = await Beside.start()

    async def let_help_go(self) -> None:
        """Nothing is under way. Raises `Gone`."""
        if self._helper is not None and self.helped:
            self._people = await self._helper.end()
        await self.close()

    async def close(self) -> None:
        """Let go of the helper, and of what it knows."""
        helper, self._helper, self.helped = self._helper, None, False
        if helper is not None:
            await helper.close()

    def judge(self, position: Position, messages: list[Message]) -> Batch:
        """The batch of these messages, up to the first that breaks the chain or that this release cannot read."""
        batch, walk, tree = Batch(), self.walk, position.tree.copy()
        if self._helper is not None and not self.helped and self._helper.ready:
            self._helper.begin(self._people)
            self.helped = True
        follow = walk.judge if self.helped else walk.read
        judged: list[tuple[Message, bytes]] = []
        head_offset, next_offset = position.head_offset, position.next_offset
        for message in messages:
            try:
                found = follow(message)
            except UnreadableRecord as error:
                self.unreadable = error  # what is before it is written first
                break
            if found is None:
                if walk.broken is not None:
                    break
                orphan = walk.latest_orphan
                assert orphan is not None
                digest = record_hash(Wire(message.headers, message.value))
                batch.orphans.append(orphan_row(position.id, message, orphan["kind"], orphan["reason"], digest))
            else:
                hashed = bytes.fromhex(walk.head.hash)
                leaf = leaf_hash(hashed)
                tree.append(leaf)
                batch.leaves.append(leaf)
                judged.append((message, hashed))
                if isinstance(found, Record):
                    self._people.note(found)
                    row = record_bytes(
                        position.id, message.offset, message.time, message.key, packed(message.headers), message.value, found,
                        hashed,
                    )  # fmt: skip
                    batch.records.append(row)
                head_offset = message.offset
            next_offset = message.offset + 1
        if self.helped and self._helper is not None:
            batch.told = self._helper.tell(judged)
        else:
            batch.people = self._people.take()
        batch.position = replace(
            position, head=walk.head, identity=walk.identity, head_offset=head_offset, next_offset=next_offset, tree=tree,
            broken="",
        )  # fmt: skip
        return batch
