"""Reads the four input topics from the positions in the log (docs/reference/log-protocol.md#inputs)."""

from dataclasses import dataclass

from bailiff_bus import topics
from bailiff_bus.port import Bus, Message, OffsetOutOfRange, Reader, Span, Wanted
from bailiff_service.clock_and_ids import ClockAndIds

INPUTS = (topics.REQUESTS, topics.PROPOSALS, topics.EVICTION_PROGRESS, topics.NODE_REPORTS)
PARTITION_REFRESH_US = 30_000_000
FULL_POSITIONS_EVERY = 10_000


@dataclass(frozen=True, slots=True)
class LostOffsets:
    """Offsets that retention deleted before they were read."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int


class InputPartitions:
    """The partitions of the input topics. Every 30 s one consumer of this process looks whether there are more."""

    def __init__(self, bus: Bus, clock_and_ids: ClockAndIds) -> None:
        self._bus, self._clock_and_ids = bus, clock_and_ids
        self._known = 0
        self._looked_up_at = clock_and_ids.boot()

    async def known(self) -> int:
        """How many there are, as of the last half minute."""
        if self._clock_and_ids.boot() - self._looked_up_at >= PARTITION_REFRESH_US:
            await self.spans()
        return self._known

    async def spans(self) -> list[tuple[str, int, Span]]:
        """Topic, partition, and the offsets that it holds now."""
        self._looked_up_at = self._clock_and_ids.boot()
        found = []
        for topic in INPUTS:
            found += [(topic.name, at, span) for at, span in sorted((await self._bus.spans(topic.name)).items())]
        self._known = len(found)
        return found


class InputConsumer:
    """Reads all partitions of all input topics. positions: next offsets, by `topic/partition`. wanted: of the pool."""

    def __init__(self, bus: Bus, partitions: InputPartitions, positions: dict[str, int], wanted: Wanted) -> None:
        self._bus, self._partitions, self._wanted = bus, partitions, wanted
        self.positions = dict(positions)
        self._reader: Reader | None = None
        self._followed: dict[str, tuple[str, int]] = {}

    async def read(self, limit: int, wait: float) -> tuple[list[Message], list[LostOffsets]]:
        """The next messages, and the offsets that were lost."""
        if self._reader is None:
            self._reader = await self._bus.reader([], self._wanted)
        is_complete = self._followed and len(self._followed) >= await self._partitions.known()
        lost = [] if is_complete else await self._find_partitions()
        try:
            return await self._reader.read(limit, 0.0 if lost else wait), lost
        except OffsetOutOfRange as gone:
            return [], [*lost, self._skip_to(gone.topic, gone.partition, gone.offset, gone.span.begin)]

    def pass_over_others(self) -> None:
        """After all messages read were handled: move the positions behind the messages of other pools that followed them."""
        if self._reader is not None:
            for name, at in self._followed.items():
                self.positions[name] = max(self.positions[name], self._reader.position(*at))

    def wake(self) -> None:
        """A waiting `read` returns at once."""
        if self._reader is not None:
            self._reader.wake()

    async def close(self) -> None:
        """Close the reader."""
        if self._reader is not None:
            await self._reader.close()

    async def _find_partitions(self) -> list[LostOffsets]:
        """Follow new partitions; one without a position starts at 0."""
        assert self._reader is not None
        lost = []
        for topic, partition, span in await self._partitions.spans():
            name = f"{topic}/{partition}"
            if name in self._followed:
                continue
            self._followed[name] = topic, partition
            at = self.positions.setdefault(name, 0)
            if span.begin <= at <= span.end:
                self._reader.follow(topic, partition, at)
            else:
                lost.append(self._skip_to(topic, partition, at, span.begin))
        return lost

    def _skip_to(self, topic: str, partition: int, offset: int, oldest: int) -> LostOffsets:
        assert self._reader is not None
        self.positions[f"{topic}/{partition}"] = oldest
        self._reader.follow(topic, partition, oldest)
        return LostOffsets(topic, partition, offset, oldest)


class PositionChanges:
    """Positions that changed since the last record; all of them every `FULL_POSITIONS_EVERY` records."""

    def __init__(self, recorded: dict[str, int], last_full: int) -> None:
        self._recorded, self._last_full = dict(recorded), last_full

    def has(self, positions: dict[str, int]) -> bool:
        """Whether any position changed."""
        return positions != self._recorded

    def take(self, positions: dict[str, int], seq: int) -> tuple[tuple[str, int], ...]:
        """The changed positions, for the record after `seq`."""
        if seq - self._last_full >= FULL_POSITIONS_EVERY:
            self._last_full, self._recorded = seq, {}
        changed = tuple(sorted((name, at) for name, at in positions.items() if self._recorded.get(name, 0) != at))
        self._recorded = dict(positions)
        return changed
