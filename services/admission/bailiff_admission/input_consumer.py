"""Reads the four input topics from the positions in the log (docs/reference/log-protocol.md#inputs)."""

from dataclasses import dataclass

from bailiff_bus import topics
from bailiff_bus.port import Bus, Message, OffsetOutOfRange, Reader
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


class InputConsumer:
    """Reads all partitions of all input topics. positions: next offsets, by `topic/partition`."""

    def __init__(self, bus: Bus, clock_and_ids: ClockAndIds, positions: dict[str, int]) -> None:
        self._bus, self._clock_and_ids = bus, clock_and_ids
        self.positions = dict(positions)
        self._reader: Reader | None = None
        self._followed: set[str] = set()
        self._refreshed_at = 0

    async def read(self, limit: int, wait: float) -> tuple[list[Message], list[LostOffsets]]:
        """The next messages, and the offsets that were lost."""
        lost = await self._find_partitions() if self._due() else []
        assert self._reader is not None
        try:
            return await self._reader.read(limit, 0.0 if lost else wait), lost
        except OffsetOutOfRange as gone:
            return [], [*lost, self._skip_to(gone.topic, gone.partition, gone.offset, gone.span.begin)]

    async def close(self) -> None:
        """Close the reader."""
        if self._reader is not None:
            await self._reader.close()

    def _due(self) -> bool:
        return self._reader is None or self._clock_and_ids.boot() - self._refreshed_at >= PARTITION_REFRESH_US

    async def _find_partitions(self) -> list[LostOffsets]:
        """Follow new partitions; one without a position starts at 0."""
        self._refreshed_at = self._clock_and_ids.boot()
        self._reader = self._reader or await self._bus.reader([])
        lost = []
        for topic in INPUTS:
            for partition, span in sorted((await self._bus.spans(topic.name)).items()):
                name = f"{topic.name}/{partition}"
                if name in self._followed:
                    continue
                self._followed.add(name)
                at = self.positions.setdefault(name, 0)
                if span.begin <= at <= span.end:
                    self._reader.follow(topic.name, partition, at)
                else:
                    lost.append(self._skip_to(topic.name, partition, at, span.begin))
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
