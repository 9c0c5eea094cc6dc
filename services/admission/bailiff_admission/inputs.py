"""The four input topics, read from the positions that the log itself holds (log protocol §1)."""

from dataclasses import dataclass

from bailiff_bus import topics
from bailiff_bus.ambient import Ambient
from bailiff_bus.port import Bus, Message, OffsetGone, Reader

INPUTS = (topics.REQUESTS, topics.PROPOSALS, topics.EVICTION_PROGRESS, topics.NODE_REPORTS)
LOOK_FOR_PARTITIONS_EVERY = 30_000_000
ALL_EVERY = 10_000


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets that the topic no longer holds and the log has not read."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int


class Inputs:
    """Reads all partitions of all input topics. `positions`: next offsets, by `topic/partition`."""

    def __init__(self, bus: Bus, ambient: Ambient, positions: dict[str, int]) -> None:
        self._bus, self._ambient = bus, ambient
        self.positions = dict(positions)
        self._reader: Reader | None = None
        self._followed: set[str] = set()
        self._looked_at = 0

    async def read(self, limit: int, wait: float) -> tuple[list[Message], list[Lost]]:
        """The next messages of any of them, and what was found to be lost."""
        lost = await self._find_partitions() if self._due() else []
        assert self._reader is not None
        try:
            return await self._reader.read(limit, 0.0 if lost else wait), lost
        except OffsetGone as gone:
            return [], [*lost, self._move_on(gone.topic, gone.partition, gone.asked, gone.span.begin)]

    async def close(self) -> None:
        """Let go of the reader."""
        if self._reader is not None:
            await self._reader.close()

    def _due(self) -> bool:
        return self._reader is None or self._ambient.boot() - self._looked_at >= LOOK_FOR_PARTITIONS_EVERY

    async def _find_partitions(self) -> list[Lost]:
        """Follow what is new; a partition without a position starts at 0."""
        self._looked_at = self._ambient.boot()
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
                    lost.append(self._move_on(topic.name, partition, at, span.begin))
        return lost

    def _move_on(self, topic: str, partition: int, asked: int, oldest: int) -> Lost:
        assert self._reader is not None
        self.positions[f"{topic}/{partition}"] = oldest
        self._reader.follow(topic, partition, oldest)
        return Lost(topic, partition, asked, oldest)


class Moved:
    """Which positions changed since the record before; all of them now and then."""

    def __init__(self, recorded: dict[str, int], last_full: int) -> None:
        self._recorded, self._last_full = dict(recorded), last_full

    def has(self, positions: dict[str, int]) -> bool:
        """Whether any did."""
        return positions != self._recorded

    def take(self, positions: dict[str, int], seq: int) -> tuple[tuple[str, int], ...]:
        """For the record that follows this one."""
        if seq - self._last_full >= ALL_EVERY:
            self._last_full, self._recorded = seq, {}
        moved = tuple(sorted((name, at) for name, at in positions.items() if self._recorded.get(name, 0) != at))
        self._recorded = dict(positions)
        return moved
