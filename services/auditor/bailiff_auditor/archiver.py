"""One domain's log into the archive: read, judge, write; from the position that the database holds, whoever wrote it.

What Kafka and PostgreSQL do at the same time: while one batch is being written the next one is read.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from asyncpg import Connection

from bailiff_bus import topics
from bailiff_bus.logs import logger
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import AT_ONCE, Bus, Message, OffsetGone, Reader
from bailiff_bus.settings import PoolDeclaration
from bailiff_bus.walk import Walk
from bailiff_core.records import Wire, record_hash

from .alarms import Alarms
from .branching import Order, first_lost, ordered, set_aside
from .judging import Judge
from .keeper import Batch, NotOurs, Position, mark_broken, position_of, write
from .sealer import Sealer
from .underway import UnderWay

WRITE_AT_ONCE = 5_000  # messages, as rows
WAIT = 0.5
LOOK_AGAIN = 30.0

Say = Callable[[str | None], None]


class Broken(Exception):
    """The log does not go on from what is archived. The text says where and how."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


class Archiver:
    """Archives one domain on a connection that holds its lock. say: is told why it is not up to date, or None."""

    def __init__(
        self, bus: Bus, pool: PoolDeclaration, connection: Connection, metrics: Metrics, alarms: Alarms, sealer: Sealer, say: Say
    ) -> None:
        self._bus, self._pool, self._db, self._metrics, self._alarms = bus, pool, connection, metrics, alarms
        self._sealer, self._say = sealer, say
        self._log = logger(domain=pool.name)
        self.offset = 0  # behind the last message that was dealt with

    async def run(self) -> None:
        """For ever. A log that does not go on is looked at again now and then: it may be put right."""
        while True:
            position = await position_of(self._db, self._pool)
            try:
                await self._archive(position)
            except Broken as broken:
                if broken.code == "archive-log-lost" and (order := await ordered(self._db, position)) is not None:
                    await self._set_aside(position, order)
                await mark_broken(self._db, position.id, str(broken))
                domain = self._pool.name
                self._metrics.archive_broken.labels(domain).set(1)
                self._say(str(broken))
                if broken.code == "archive-log-lost":
                    await self._alarms.alarm(domain, "archive-log-lost", str(broken))
                else:
                    await self._alarms.alarm(domain, "archive-log-broken", str(broken))
                await asyncio.sleep(LOOK_AGAIN)

    async def _archive(self, position: Position) -> None:
        domain, topic, partition = self._pool.name, topics.AUDIT.name, self._pool.partition
        judge = await Judge.at(position, self._db)
        self.offset = position.next_offset
        reader = await self._bus.reader([(topic, partition, position.next_offset)])
        under_way, caught_up = UnderWay(), False
        try:
            await self._confirm(reader, position)
            await self._sealer.begin(self._db, position)
            self._metrics.archive_head.labels(domain).set(position.head.next_seq - 1)
            batch = Batch(position)
            while True:
                messages = await self._read(reader, batch)
                if messages:
                    judge.judge(batch, messages)
                    if not batch.leaves:  # nothing continues: is what we archived still in the log?
                        await under_way.ended()
                        await self._confirm(reader, batch.after)
                    if not judge.stopped and self._room(batch):
                        continue
                if len(batch):
                    await under_way.begin(partial(self._write, batch, judge.take_people()))
                    batch = Batch(batch.after)
                elif not messages:
                    await under_way.ended()
                    if not caught_up:  # silence may also mean that Kafka has not answered yet
                        caught_up = reader.position(topic, partition) >= await self._end()
                    if caught_up:
                        self._caught_up(batch.after)
                    await self._sealer.seal_if_due(self._db, batch.after)
                if judge.stopped:
                    await under_way.ended()
                    raise judge.unreadable or self._broken(judge.walk, batch.after)
        finally:
            await under_way.cancel()
            await reader.close()

    async def _end(self) -> int:
        return (await self._bus.spans(topics.AUDIT.name))[self._pool.partition].end

    async def _set_aside(self, position: Position, order: Order) -> None:
        """As an operator said: what the log has no more is set aside. Raises `NotOurs` when that is done."""
        domain, topic, partition = self._pool.name, topics.AUDIT.name, self._pool.partition
        span = (await self._bus.spans(topic))[partition]
        reader = await self._bus.reader([(topic, partition, span.begin)])

        async def stands_at(offset: int, digest: str) -> bool:
            if not span.begin <= offset < span.end:
                return False
            reader.follow(topic, partition, offset)
            found: list[Message] = []
            while not found:
                found = await self._read_one(reader, position)
            return found[0].offset == offset and record_hash(Wire(found[0].headers, found[0].value)) == digest

        try:
            from_seq = await first_lost(self._db, position, stands_at)
        finally:
            await reader.close()
        if from_seq is None:
            self._log.error("nothing of this archive is in the log: it is another one, and needs an empty database")
            return
        branch = await set_aside(self._db, position, from_seq, order)
        text = (
            f"{domain}: records #{from_seq} to #{position.head.next_seq - 1} are archived and not in the log any more; they were "
            f"set aside as branch {branch}, as {order.by or 'an operator'} said ({order.reason}); the archive follows the log"
        )
        await self._alarms.alarm(domain, "archive-branched", text)
        raise NotOurs(text)

    async def _read(self, reader: Reader, batch: Batch) -> list[Message]:
        """What is there; waits for it only where nothing else waits to be written."""
        try:
            return await reader.read(min(AT_ONCE, self._room(batch)), 0 if len(batch) else WAIT)
        except OffsetGone as gone:
            raise self._lost(batch.after, str(gone)) from None

    def _room(self, batch: Batch) -> int:
        """How many messages more the batch takes: it ends where a seal is due."""
        return min(WRITE_AT_ONCE, self._sealer.until_due(batch.before.tree.size)) - len(batch)

    async def _confirm(self, reader: Reader, position: Position) -> None:
        """The last archived record still stands in the log, where it was read. Raises `Broken`."""
        if position.head_offset < 0:
            return
        topic, partition = topics.AUDIT.name, self._pool.partition
        span = (await self._bus.spans(topic))[partition]
        if not span.begin <= position.head_offset < span.end or position.next_offset > span.end:
            raise self._lost(position, f"it holds offsets {span.begin} to {span.end}")
        reader.follow(topic, partition, position.head_offset)
        found: list[Message] = []
        while not found:
            found = await self._read_one(reader, position)
        if found[0].offset != position.head_offset or record_hash(Wire(found[0].headers, found[0].value)) != position.head.hash:
            raise self._lost(position, f"another message stands at offset {position.head_offset}")
        reader.follow(topic, partition, position.next_offset)

    async def _read_one(self, reader: Reader, position: Position) -> list[Message]:
        try:
            return await reader.read(1, WAIT)
        except OffsetGone as gone:
            raise self._lost(position, str(gone)) from None

    def _broken(self, walk: Walk, position: Position) -> Broken:
        found = walk.broken
        assert found is not None
        return Broken(
            "archive-log-broken",
            f"{self._pool.name}: the chain is broken at seq {found['seq']} (offset {found['offset']}): {found['meaning']}; "
            f"archived are the records before #{position.head.next_seq}",
        )

    def _lost(self, position: Position, how: str) -> Broken:
        last = position.head.next_seq - 1
        return Broken(
            "archive-log-lost",
            f"{self._pool.name}: the log no longer holds record #{last}, which is archived from offset "
            f"{position.head_offset}: {how}; it was cut short or replaced, and the archive is left as it is",
        )

    async def _write(self, batch: Batch, people: dict[str, str]) -> None:
        await write(self._db, batch, people)
        domain, self.offset = self._pool.name, batch.after.next_offset
        self._metrics.archived.labels(domain).inc(len(batch.leaves))
        self._metrics.archive_head.labels(domain).set(batch.after.head.next_seq - 1)
        for row in batch.orphans:
            if self._metrics.count_orphan(domain, row[1]):
                self._log.warning("a record that does not continue the log was skipped", offset=row[1], why=row[4])
        self._sealer.grown(batch.leaves, batch.after.tree.size)
        await self._sealer.seal_if_due(self._db, batch.after)

    def _caught_up(self, position: Position) -> None:
        self._metrics.archive_broken.labels(self._pool.name).set(0)
        self._say(None if position.head.next_seq else "its log has not begun")
