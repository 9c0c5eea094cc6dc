"""Aggregates of one pool's GPU telemetry, in total and per open window.

A pure function of the messages up to `offsets` and of the jobs' projects. Windows use the broker's append time. Units:
percent of a GPU, or bytes, times µs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from bailiff_bus.messages.rollups import ProjectTelemetry, TelemetryWindow
from bailiff_bus.messages.telemetry import NodeTelemetry
from bailiff_bus.port import Message, Span
from bailiff_core.model.document import MAX_INTEGER
from bailiff_core.model.state import PoolState
from bailiff_core.records.nodes import MAX_DEVICES
from bailiff_log.node_messages import NodeMessages

from .windowed_counters import LENGTHS, Counters, WindowName, from_pairs, of, to_pairs

MILLISECOND, SECOND = 1_000, 1_000_000
MIB = 1 << 20
LONGEST_MS, MOST_DEVICE_BYTES = 600_000, 1 << 40
"""Of one measurement: one that claims more is not counted."""
Paths = Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class TelemetryRollup:
    """offsets: next offset by partition; messages: number of messages read; windows: begin, µs, and counters of each.

    topic_id: of the topic that has these offsets. signed: which messages of each node count.
    """

    topic_id: str = ""
    offsets: dict[int, int] = field(default_factory=dict)
    messages: int = 0
    totals: Counters = field(default_factory=dict)
    windows: dict[WindowName, tuple[int, Counters]] = field(default_factory=dict)
    signed: NodeMessages = field(default_factory=NodeMessages)

    def begin(self, spans: Mapping[int, Span]) -> dict[int, int]:
        """The offsets to read from. Where the topic was made anew since, or does not hold them, from its begin."""
        topic_id = next(iter(spans.values())).topic_id
        if self.topic_id not in ("", topic_id):
            self.offsets.clear()
        self.topic_id = topic_id
        known = {number: self.offsets.get(number, span.begin) for number, span in spans.items()}
        return {
            number: at if spans[number].begin <= at <= spans[number].end else spans[number].begin for number, at in known.items()
        }

    def advance_past(self, message: Message) -> None:
        """Advance the position past this message."""
        self.offsets[message.partition] = message.offset + 1
        self.messages += 1

    def count(self, time: int, body: NodeTelemetry, paths: Paths) -> Iterator[TelemetryWindow]:
        """Aggregate this sample, appended at `time`, µs; yields windows that have ended.

        paths: project and ancestors of each known job; GPUs of unknown jobs count for the pool only.
        """
        for name, length in LENGTHS.items():
            begin = time - time % length
            before = self.windows.get(name)
            if before is None or before[0] < begin:
                self.windows[name] = (begin, {})
                if before is not None:
                    yield _message(name, *before)
        interval = body.interval_ms * MILLISECOND
        for device in body.devices:
            for job in device.jobs:
                for project in paths.get(job, ("",)):
                    part = interval // len(device.jobs)
                    if device.busy_percent is not None:
                        self._add("gpu", project, 100 * part)
                        self._add("busy", project, device.busy_percent * part)
                    self._add("memory", project, device.memory_bytes * part)
                    self._add("memory-used", project, device.memory_used * part)

    @staticmethod
    def is_plausible(body: NodeTelemetry, state: PoolState) -> bool:
        """Whether a node of the pool can have measured that: it can claim more, and without a root key anybody can."""
        return (
            body.node in state.node_numbers
            and body.interval_ms <= LONGEST_MS
            and len(body.devices) <= MAX_DEVICES
            and all(max(each.memory_bytes, each.memory_used) <= MOST_DEVICE_BYTES for each in body.devices)
        )

    def _add(self, name: str, project: str, amount: int) -> None:
        key = (name, project)
        for sums in (self.totals, *(sums for _, sums in self.windows.values())):
            sums[key] = sums.get(key, 0) + amount

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        windows = {name: [begin, to_pairs(sums)] for name, (begin, sums) in self.windows.items()}
        return {
            "topic_id": self.topic_id,
            "offsets": list(self.offsets.items()),
            "messages": self.messages,
            "totals": to_pairs(self.totals),
            "windows": windows,
            "signed": self.signed.to_data(),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """The rollup that `to_data` serialized."""
        windows = {name: (begin, from_pairs(sums)) for name, (begin, sums) in data["windows"].items()}
        signed = NodeMessages.from_data(data.get("signed", ()))
        return cls(data.get("topic_id", ""), dict(data["offsets"]), data["messages"], from_pairs(data["totals"]), windows, signed)


def _message(name: WindowName, begin: int, sums: Counters) -> TelemetryWindow:
    def amount(counter: str, project: str, unit: int) -> int:
        return min(sums.get((counter, project), 0) // unit, MAX_INTEGER)

    return TelemetryWindow(
        window=name,
        begin=begin,
        end=begin + LENGTHS[name],
        projects=tuple(
            ProjectTelemetry(
                name=project,
                gpu_ms=amount("gpu", project, 100 * MILLISECOND),
                busy_gpu_ms=amount("busy", project, 100 * MILLISECOND),
                memory_used_mib_s=amount("memory-used", project, MIB * SECOND),
                memory_mib_s=amount("memory", project, MIB * SECOND),
            )
            for (project,) in sorted(of(sums, "memory"))
        ),
    )
