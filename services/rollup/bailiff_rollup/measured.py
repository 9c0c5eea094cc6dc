"""What agents measured, summed up: since the topic was first read, and since each open window began.

A pure function of the messages up to `offsets`, and of which project each job is of. Windows go by the broker's append
time. Amounts are percent of a GPU, or bytes, times µs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from bailiff_bus.messages import MeasuredOf, MeasuredWindow, NodeTelemetry
from bailiff_bus.port import Message

from .sums import LENGTHS, Sums, WindowName, found, listed, of

MILLISECOND, SECOND = 1_000, 1_000_000
MIB = 1 << 20
Paths = Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class Measured:
    """offsets: that are read next, by partition of the topic; taken: how many messages were. windows: their begins and sums."""

    offsets: dict[int, int] = field(default_factory=dict)
    taken: int = 0
    totals: Sums = field(default_factory=dict)
    windows: dict[WindowName, tuple[int, Sums]] = field(default_factory=dict)

    def passed(self, message: Message) -> None:
        """The message is dealt with, whoever it is about."""
        self.offsets[message.partition] = message.offset + 1
        self.taken += 1

    def count(self, time: int, body: NodeTelemetry, paths: Paths) -> Iterator[MeasuredWindow]:
        """Count this look, which was appended at `time`, µs; yields windows that are over by then.

        paths: the project and all above it, of each job that is known. Of one that is not the pool alone has its GPU.
        """
        for name, length in LENGTHS.items():
            begin = time - time % length
            before = self.windows.get(name)
            if before is None or before[0] < begin:
                self.windows[name] = (begin, {})
                if before is not None:
                    yield _told(name, *before)
        lasted = body.lasted_ms * MILLISECOND
        for device in body.devices:
            for job in device.jobs:
                for project in paths.get(job, ("",)):
                    part = lasted // len(device.jobs)
                    if device.busy_percent is not None:
                        self._add("gpu", project, 100 * part)
                        self._add("busy", project, device.busy_percent * part)
                    self._add("memory", project, device.memory_bytes * part)
                    self._add("memory-used", project, device.memory_used * part)

    def _add(self, name: str, project: str, amount: int) -> None:
        key = (name, project)
        for sums in (self.totals, *(sums for _, sums in self.windows.values())):
            sums[key] = sums.get(key, 0) + amount

    def to_data(self) -> dict[str, Any]:
        """As stored."""
        windows = {name: [begin, listed(sums)] for name, (begin, sums) in self.windows.items()}
        return {"offsets": list(self.offsets.items()), "taken": self.taken, "totals": listed(self.totals), "windows": windows}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """What was stored."""
        windows = {name: (begin, found(sums)) for name, (begin, sums) in data["windows"].items()}
        return cls(dict(data["offsets"]), data["taken"], found(data["totals"]), windows)


def _told(name: WindowName, begin: int, sums: Sums) -> MeasuredWindow:
    def amount(what: str, project: str, unit: int) -> int:
        return sums.get((what, project), 0) // unit

    return MeasuredWindow(
        window=name, begin=begin, end=begin + LENGTHS[name],
        projects=tuple(
            MeasuredOf(
                name=project, gpu_ms=amount("gpu", project, 100 * MILLISECOND),
                busy_gpu_ms=amount("busy", project, 100 * MILLISECOND),
                memory_used_mib_s=amount("memory-used", project, MIB * SECOND),
                memory_mib_s=amount("memory", project, MIB * SECOND),
            )
            for (project,) in sorted(of(sums, "memory"))
        ),
    )  # fmt: skip
