"""Roll-up of one pool: follows and folds its log, and aggregates each record exactly once."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from bailiff_bus.envelope import InvalidMessage, unwrap
from bailiff_bus.messages.rollups import RollupWindow, TelemetryWindow
from bailiff_bus.messages.telemetry import NodeTelemetry
from bailiff_bus.port import Bus, Message
from bailiff_log.projection import Projection
from bailiff_log.reader import Entry
from bailiff_service import tracing
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics
from bailiff_service.settings import PoolDeclaration

from .aggregates import Aggregates, WindowSnapshot
from .aggregators import Aggregator
from .message import message
from .traces import Traces

Keep = Callable[["PoolRollup"], Awaitable[None]]


class LogMismatch(Exception):
    """The stored aggregates are of another log."""


class _BatchProjection(Projection):
    """A projection with a callback after each batch."""

    after_batch: Callable[[], Awaitable[None]]

    async def take(self, entries: Sequence[Entry]) -> None:
        await super().take(entries)
        await self.after_batch()


class PoolRollup:
    """Resumes a pool's aggregates from the stored ones. keep: awaited after each batch, to publish and store.

    opened: the log was read to the end offset of the time when this replica took over the pool. due: windows to publish.

    The state is folded up to the aggregates' position before anything is added; then both advance together. Aggregates and
    position are one value, so correctness does not depend on Kafka's consumer offsets.
    """

    def __init__(
        self, bus: Bus, pool: PoolDeclaration, metrics: Metrics, snapshots: Path, stored: bytes | None, keep: Keep
    ) -> None:
        self.pool = pool
        self._bus, self._metrics, self._snapshots, self._keep = bus, metrics, snapshots, keep
        self.due: list[RollupWindow | TelemetryWindow] = []
        self.opened = False
        aggregates = Aggregates.from_bytes(stored) if stored is not None else None
        self._start_from(aggregates or Aggregates())
        self.projection = self._new_projection()

    @property
    def aggregates(self) -> Aggregates:
        """Aggregates of all records so far."""
        return self._aggregator.aggregates

    @property
    def offset(self) -> int:
        """The next Kafka offset."""
        return self.projection.reader.offset

    async def open(self) -> None:
        """Fold up to the stored aggregates, then aggregate to the current end of the log."""
        try:
            await self._follow()
        except LogMismatch as why:
            logger(pool=self.pool.name).warning(
                "the stored aggregates are of another log: starting from its first record", why=str(why)
            )
            self._start_from(Aggregates())
            await self._follow()
        self.opened = True

    async def take(self, message: Message) -> None:
        """Aggregate this message. Reads earlier ones first; skips a message that is aggregated already."""
        projection = self.projection
        if message.offset > self.offset:
            await projection.catch_up()
            await projection.close()
        if message.offset == self.offset:
            found = projection.reader.classify(message)
            if isinstance(found, Entry):
                await projection.take([found])

    async def measure(self, messages: Sequence[Message]) -> None:
        """Aggregate telemetry of this pool. Reads the log to its end first, so that the jobs are known."""
        projection, telemetry = self.projection, self.aggregates.telemetry
        own = [_pool_of(found) == self.pool.name for found in messages]
        if any(own):
            await projection.catch_up()
            await projection.close()
        for found, is_own in zip(messages, own, strict=True):
            if is_own:
                with suppress(InvalidMessage):
                    envelope = unwrap(found, accept=(NodeTelemetry,))
                    body = envelope.body
                    assert isinstance(body, NodeTelemetry)
                    telemetry.signed.check(envelope, projection.state, body.node)
                    if telemetry.is_plausible(body, projection.state):
                        jobs = {job for device in body.devices for job in device.jobs}
                        paths = {job: self._aggregator.path_of(projection.state, job) for job in jobs}
                        self.due += telemetry.count(found.time, body, paths)
            telemetry.advance_past(found)
        await self._keep(self)

    async def close(self) -> None:
        """Close the connections."""
        await self.projection.close()

    def _start_from(self, aggregates: Aggregates) -> None:
        self._aggregator = Aggregator(aggregates, self._emit)
        self.traces = Traces(aggregates.traces) if tracing.endpoint() is not None else None

    def _new_projection(self) -> _BatchProjection:
        pool = self.pool
        projection = _BatchProjection(
            self._bus, pool.name, pool.partition, self._metrics, snapshots=self._snapshots, observe=self._observe
        )
        projection.after_batch = lambda: self._keep(self)
        return projection

    async def _follow(self) -> None:
        await self.projection.close()
        self.projection = self._new_projection()
        await self.projection.open()
        if self.projection.state.seq >= self.aggregates.next_seq:  # the local snapshot is newer than the stored aggregates
            self.projection = self._new_projection()
        if self.projection.state.seq == self.aggregates.next_seq - 1:
            self._aggregator.reset_levels(self.projection.state)
        await self.projection.catch_up()
        await self.projection.close()  # only its connection: messages now come from the stream
        if self.projection.state.seq < self.aggregates.next_seq - 1:
            raise LogMismatch(f"the log ends at {self.projection.state.seq}, the aggregates at {self.aggregates.next_seq - 1}")

    def _observe(self, entry: Entry) -> None:
        seq, aggregates = entry.record.seq, self.aggregates
        if seq >= aggregates.next_seq:
            self._aggregator.count(self.projection.state, entry)
            if self.traces is not None:
                self.traces.observe(self.projection.state, entry)
        elif seq == aggregates.next_seq - 1:
            if entry.hash != aggregates.hash:
                raise LogMismatch(f"record {seq} differs")
            self._aggregator.reset_levels(self.projection.state)

    def _emit(self, snapshot: WindowSnapshot) -> None:
        self.due.append(message(snapshot, self.aggregates.next_seq))


def _pool_of(message: Message) -> str:
    return next((value.decode(errors="replace") for name, value in message.headers if name == "ce_pool"), "")
