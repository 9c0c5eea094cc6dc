"""Which inputs are done, as records keep it: per partition a position, and ranges of offsets that were done ahead of it.

`topic/partition = n`: everything before n is done. `topic/partition/m = n`: so is everything from m up to n, as requests are
taken in turn by user; 0 removes the range, once the position has passed it or another one includes it. An input is done in the
record of its fact: what a writer leaves undone waits for the next writer, and nothing is done twice.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

FULL_POSITIONS_EVERY = 10_000


@dataclass(slots=True)
class _Partition:
    """end: everything before it was read. waiting: what was read and is not done, in order.

    ahead: the ranges, by first offset. before: those of earlier writers that were not read yet, in order.
    """

    position: int = 0
    end: int = 0
    waiting: list[int] = field(default_factory=list)
    ahead: dict[int, int] = field(default_factory=dict)
    before: deque[tuple[int, int]] = field(default_factory=deque)


class InputPositions:
    """The positions of one writer. recorded: those of the log, at its record `last_full`, which has all of them."""

    def __init__(self, recorded: Mapping[str, int], last_full: int) -> None:
        self._partitions: dict[str, _Partition] = {}
        self._changed: dict[str, int] = {}
        self._last_full = last_full
        for recorded_name, at in recorded.items():
            name, first = partition_of(recorded_name)
            partition = self._of(name)
            if first is None:
                partition.position = partition.end = at
            else:
                partition.ahead[first] = at
        for partition in self._partitions.values():
            partition.before.extend(sorted(partition.ahead.items()))

    def __getitem__(self, name: str) -> int:
        """The position of this partition, 0 for a new one."""
        return self._of(name).position

    def farthest(self, name: str) -> int:
        """Up to where inputs of this partition were read or are done."""
        partition = self._of(name)
        return max(partition.end, *partition.ahead.values(), 0)

    def begin(self, name: str, at: int, *, is_anew: bool = False) -> None:
        """Read this partition from here on: what was before is gone, or the topic is another one, or ends before its position."""
        partition = self._of(name)
        if is_anew or at < partition.end:
            for first in list(partition.ahead):
                self._drop(name, partition, first)
            partition.waiting.clear()
            partition.before.clear()
            partition.position = self._changed[name] = at
        partition.end = at
        self._move(name, partition)

    def waits(self, name: str, offset: int) -> bool:
        """An input was read. Returns whether it is to be done, and not done already."""
        partition = self._of(name)
        partition.end = max(partition.end, offset + 1)
        while partition.before and partition.before[0][1] <= offset:
            partition.before.popleft()
        if partition.before and partition.before[0][0] <= offset:
            return False
        partition.waiting.append(offset)
        return True

    def read_to(self, name: str, end: int) -> None:
        """Everything before this offset was read: what does not wait is of other pools."""
        partition = self._of(name)
        partition.end = max(partition.end, end)
        self._move(name, partition)

    def done(self, name: str, first: int, last: int) -> None:
        """What waits of the inputs `first` to `last` is done."""
        partition = self._of(name)
        waiting, at = partition.waiting, bisect_left(partition.waiting, first)
        removed = waiting[at : bisect_right(waiting, last)]
        del waiting[at : at + len(removed)]
        if not removed:
            return  # they were read before the topic was cut short
        if at == 0:
            self._move(name, partition)
            return
        for offset in removed:
            self._drop(name, partition, offset + 1)
        before = waiting[at - 1] + 1
        partition.ahead[before] = self._changed[f"{name}/{before}"] = waiting[at] if at < len(waiting) else partition.end

    @property
    def ranges(self) -> int:
        """How many ranges there are."""
        return sum(len(partition.ahead) for partition in self._partitions.values())

    @property
    def changed(self) -> bool:
        """Whether anything changed since the last record."""
        return bool(self._changed)

    def take_changes(self, seq: int) -> tuple[tuple[str, int], ...]:
        """What changed, for the record after `seq`; everything every `FULL_POSITIONS_EVERY` records."""
        if seq - self._last_full >= FULL_POSITIONS_EVERY:
            self._last_full = seq
            self._changed |= self.all()
        changed, self._changed = tuple(sorted(self._changed.items())), {}
        return changed

    def all(self) -> dict[str, int]:
        """All positions and ranges."""
        found = {}
        for name, partition in self._partitions.items():
            if partition.position:
                found[name] = partition.position
            found |= {f"{name}/{first}": end for first, end in partition.ahead.items()}
        return found

    def _of(self, name: str) -> _Partition:
        return self._partitions.setdefault(name, _Partition())

    def _move(self, name: str, partition: _Partition) -> None:
        """The position moves to the oldest input that waits."""
        position = partition.waiting[0] if partition.waiting else partition.end
        if position <= partition.position:
            return
        partition.position = self._changed[name] = position
        for first in [first for first in partition.ahead if first < position]:
            self._drop(name, partition, first)

    def _drop(self, name: str, partition: _Partition, first: int) -> None:
        if partition.ahead.pop(first, None) is not None:
            self._changed[f"{name}/{first}"] = 0


def partition_of(name: str) -> tuple[str, int | None]:
    """The partition of a recorded position, and the first offset of a range."""
    topic, partition, *first = name.split("/")
    return f"{topic}/{partition}", int(first[0]) if first else None
