"""Archives one pool's log: reads, verifies and writes, from the position stored in the database.

Reading and writing overlap: while one batch is being written, the next one is read.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from asyncpg import Connection

from bailiff_bus import topics
from bailiff_bus.port import READ_LIMIT, Bus, Message, OffsetOutOfRange, Reader
from bailiff_core.humanize import count_text
from bailiff_core.records import Wire, record_hash
from bailiff_log.chain_verifier import ChainVerifier
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics
from bailiff_service.settings import PoolDeclaration

from .alarms import Alarms
from .archive_writer import Batch, Position, PositionMoved, mark_broken, position_of, write
from .forks import ForkOrder, find_fork_order, first_lost, move_to_fork
from .record_classifier import RecordClassifier
from .sealer import Sealer
from .write_pipeline import WritePipeline

WRITE_AT_ONCE = 5_000  # messages per transaction
WAIT = 0.5
RETRY_S = 30.0

SetReadiness = Callable[[str | None], None]


class LogBroken(Exception):
    """The log does not continue the archived chain. The text states where and how. code: of the alarm."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


class Archiver:
    """Archives one pool on a connection that holds its lock. set_readiness: called with the reason why it is behind, or None."""

    def __init__(
        self,
        bus: Bus,
        pool: PoolDeclaration,
        connection: Connection,
        metrics: Metrics,
        alarms: Alarms,
        sealer: Sealer,
        set_readiness: SetReadiness,
    ) -> None:
        self._bus, self._pool, self._db, self._metrics, self._alarms = bus, pool, connection, metrics, alarms
        self._sealer, self._set_readiness = sealer, set_readiness
        self._log = logger(pool=pool.name)
        self.offset = 0  # of the next message

    async def run(self) -> None:
        """Run forever. A broken log is retried periodically, because it may be repaired."""
        while True:
            position = await position_of(self._db, self._pool)
            try:
                await self._archive(position)
            except LogBroken as broken:
                if broken.code == "archive-log-lost" and (order := await find_fork_order(self._db, position)) is not None:
                    await self._move_to_fork(position, order)
                await mark_broken(self._db, position.id, str(broken))
                pool = self._pool.name
                self._metrics.archive_broken.labels(pool).set(1)
                self._set_readiness(str(broken))
                if broken.code == "archive-log-lost":
                    await self._alarms.alarm(pool, "archive-log-lost", str(broken))
                else:
                    await self._alarms.alarm(pool, "archive-log-broken", str(broken))
                await asyncio.sleep(RETRY_S)

    async def _archive(self, position: Position) -> None:
        pool, topic, partition = self._pool.name, topics.AUDIT.name, self._pool.partition
        classifier = await RecordClassifier.at(position, self._db)
        self.offset = position.next_offset
        reader = await self._bus.reader([(topic, partition, position.next_offset)])
        pipeline, caught_up = WritePipeline(), False
        try:
            await self._confirm(reader, position)
            await self._sealer.begin(self._db, position)
            self._metrics.archive_head.labels(pool).set(position.head.next_seq - 1)
            batch, end = Batch(position), await self._end()
            while True:
                messages = await self._read(reader, batch)
                if messages:
                    classifier.classify(batch, messages)
                    if not batch.leaves:  # no message continued the chain: check that the archived head is still in the log
                        await pipeline.wait()
                        await self._confirm(reader, batch.after)
                    if not classifier.stopped and self._capacity(batch):
                        continue
                if len(batch):
                    await pipeline.begin(partial(self._write, batch, classifier.take_rows()))
                    batch = Batch(batch.after)
                elif not messages:
                    await pipeline.wait()
                    await self._sealer.seal_if_due(self._db, batch.after)
                if classifier.stopped:
                    await pipeline.wait()
                    raise classifier.unreadable or self._broken(classifier.verifier, batch.after)
                if not caught_up and batch.after.next_offset >= end:  # on a busy pool there is always something more to read
                    await pipeline.wait()
                    end = await self._end()
                    caught_up = end <= batch.after.next_offset + READ_LIMIT
                if caught_up:
                    self._caught_up(batch.after)
        finally:
            await pipeline.cancel()
            await reader.close()

    async def _end(self) -> int:
        return (await self._bus.spans(topics.AUDIT.name))[self._pool.partition].end

    async def _move_to_fork(self, position: Position, order: ForkOrder) -> None:
        """Move records that the log lost to a fork, on an operator's order. Raises `PositionMoved` when done."""
        pool, topic, partition = self._pool.name, topics.AUDIT.name, self._pool.partition
        span = (await self._bus.spans(topic))[partition]
        reader = await self._bus.reader([(topic, partition, span.begin)])

        async def is_at(offset: int, digest: str) -> bool:
            if not span.begin <= offset < span.end:
                return False
            reader.follow(topic, partition, offset)
            found: list[Message] = []
            while not found:
                found = await self._read_one(reader, position)
            return found[0].offset == offset and record_hash(Wire(found[0].headers, found[0].value)) == digest

        try:
            from_seq = await first_lost(self._db, position, is_at)
        finally:
            await reader.close()
        if from_seq is None:
            self._log.error("no archived record is in the log: this is another log; archive it in an empty database")
            return
        fork = await move_to_fork(self._db, position, from_seq, order)
        text = (
            f"{pool}: records #{from_seq} to #{position.head.next_seq - 1} are archived but no longer in the log; they were "
            f"moved to fork {fork}, ordered by {order.by or 'an operator'} ({order.reason}); the archive follows the log"
        )
        await self._alarms.alarm(pool, "archive-forked", text)
        raise PositionMoved(text)

    async def _read(self, reader: Reader, batch: Batch) -> list[Message]:
        """Available messages; waits only if there is nothing to write."""
        try:
            return await reader.read(min(READ_LIMIT, self._capacity(batch)), 0 if len(batch) else WAIT)
        except OffsetOutOfRange as error:
            raise self._lost(batch.after, str(error)) from None

    def _capacity(self, batch: Batch) -> int:
        """Remaining size of the batch; a batch ends where a seal is due."""
        return min(WRITE_AT_ONCE, self._sealer.until_due(batch.before.tree.size)) - len(batch)

    async def _confirm(self, reader: Reader, position: Position) -> None:
        """Check that the last archived record is still at its offset. Raises `LogBroken`."""
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
            raise self._lost(position, f"offset {position.head_offset} has another message")
        reader.follow(topic, partition, position.next_offset)

    async def _read_one(self, reader: Reader, position: Position) -> list[Message]:
        try:
            return await reader.read(1, WAIT)
        except OffsetOutOfRange as error:
            raise self._lost(position, str(error)) from None

    def _broken(self, verifier: ChainVerifier, position: Position) -> LogBroken:
        found = verifier.broken
        assert found is not None
        return LogBroken(
            "archive-log-broken",
            f"{self._pool.name}: the chain is broken at seq {found['seq']} (offset {found['offset']}): {found['meaning']}; "
            f"records before #{position.head.next_seq} are archived",
        )

    def _lost(self, position: Position, how: str) -> LogBroken:
        last = position.head.next_seq - 1
        return LogBroken(
            "archive-log-lost",
            f"{self._pool.name}: the log no longer holds record #{last}, which is archived from offset "
            f"{position.head_offset}: {how}; the log was truncated or replaced; the archive is unchanged",
        )

    async def _write(self, batch: Batch, people: dict[str, str]) -> None:
        await write(self._db, batch, people)
        pool, self.offset = self._pool.name, batch.after.next_offset
        self._metrics.archived.labels(pool).inc(len(batch.leaves))
        self._metrics.archive_head.labels(pool).set(batch.after.head.next_seq - 1)
        for row in batch.orphans:
            if self._metrics.count_orphan(pool, row[1]):
                self._log.warning("skipped an orphan", offset=row[1], why=row[4])
        await self._report_not_signed([row for row in batch.orphans if row[3] == "not-signed"])
        self._sealer.grown(batch.leaves, batch.after.tree.size)
        await self._sealer.seal_if_due(self._db, batch.after)

    async def _report_not_signed(self, orphans: list[tuple[Any, ...]]) -> None:
        """Raise one alarm for what somebody appended who is not the log's writer."""
        if orphans:
            pool = self._pool.name
            first, more = orphans[0], f" and {count_text(len(orphans) - 1, 'other message')}" if len(orphans) > 1 else ""
            text = (
                f"{pool}: the message at offset {first[1]}{more} of the log has no valid signature of its writer: "
                f"{first[4]}; it has no effect; somebody else can append to this topic"
            )
            await self._alarms.alarm(pool, "record-not-signed", text)

    def _caught_up(self, position: Position) -> None:
        self._metrics.archive_broken.labels(self._pool.name).set(0)
        self._set_readiness(None if position.head.next_seq else "its log is empty")
