"""Utilisation and memory of GPUs over time, as far as this console has received telemetry: in memory, bounded, not stored.

Of each node an hour in steps of ten seconds and a day in steps of ten minutes; of the pool a week in steps of a minute.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from typing_extensions import TypedDict


class NodeTelemetryHistory(TypedDict):
    """Samples of a node, oldest first: times in seconds UTC, and percent by device; null: unknown."""

    step_s: int
    times: list[int]
    busy: list[list[int | None]]
    memory: list[list[int | None]]


class Utilisation(TypedDict):
    """Mean busy percent of the measured GPUs, oldest first. Times are seconds UTC."""

    step_s: int
    times: list[int]
    busy: list[float]


Sample = tuple[int | None, int | None, int | None]
STEP_S, STEPS = 10, 360
LONG_STEP_S, LONG_STEPS = 600, 144
POOL_STEP_S, POOL_STEPS = 60, 7 * 24 * 60
UNKNOWN = 255
MAX_NODES = 20_000


@dataclass(slots=True)
class _Point:
    """One step of a node: busy percent and percent of memory in use, by device; 255: unknown."""

    at: int
    busy: bytes
    memory: bytes


class _Node:
    """The samples of one node: the newest in short steps, and means of long steps."""

    __slots__ = ("long", "short")

    def __init__(self) -> None:
        self.short: deque[_Point] = deque(maxlen=STEPS)
        self.long: deque[_Point] = deque(maxlen=LONG_STEPS)

    def take(self, point: _Point) -> None:
        """Add a sample; the first one of a long step completes the step before."""
        if self.short and point.at // LONG_STEP_S != self.short[-1].at // LONG_STEP_S:
            self.long.append(self._mean(self.short[-1].at // LONG_STEP_S * LONG_STEP_S))
        self.short.append(point)

    def since(self, time: int) -> tuple[int, list[_Point]]:
        """The step, and the points from `time` on: short ones where they reach back so far."""
        if not self.long or not self.short or self.short[0].at <= time:
            return STEP_S, [point for point in self.short if point.at >= time]
        step = time // LONG_STEP_S * LONG_STEP_S
        running = self._mean(self.short[-1].at // LONG_STEP_S * LONG_STEP_S)
        return LONG_STEP_S, [point for point in (*self.long, running) if point.at >= step]

    def _mean(self, step: int) -> _Point:
        points = [point for point in self.short if point.at >= step]
        return _Point(step, _means([point.busy for point in points]), _means([point.memory for point in points]))


class TelemetryHistory:
    """Of one pool. Times are seconds UTC."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._pool: deque[list[int]] = deque(maxlen=POOL_STEPS)  # begin of the minute, sum of busy percent, number of GPUs

    def take(self, node: str, at: int, devices: Sequence[Sample]) -> None:
        """Add a sample of a node; one of a step that is there already, or older, replaces nothing."""
        kept = self._nodes.get(node)
        if kept is None:
            if len(self._nodes) >= MAX_NODES:
                return
            kept = self._nodes[node] = _Node()
        step = at // STEP_S * STEP_S
        if kept.short and kept.short[-1].at >= step:
            return
        busy = bytes(_percent(each[0]) for each in devices)
        memory = bytes(_percent(_share(each[1], each[2])) for each in devices)
        kept.take(_Point(step, busy, memory))
        self._count(at // POOL_STEP_S * POOL_STEP_S, busy)

    def keep(self, nodes: Iterable[str]) -> None:
        """Drop all nodes but these."""
        known = dict.fromkeys(nodes)
        for name in [name for name in self._nodes if name not in known]:
            del self._nodes[name]

    def of_node(self, node: str, since: int | None = None) -> NodeTelemetryHistory:
        """The node's samples, oldest first: times in seconds, and by device percent or null. since: default the short steps."""
        kept = self._nodes.get(node) or _Node()
        step, points = (STEP_S, list(kept.short)) if since is None else kept.since(since)
        width = max((len(point.busy) for point in points), default=0)
        return {
            "step_s": step,
            "times": [point.at for point in points],
            "busy": [[_value(point.busy, device) for point in points] for device in range(width)],
            "memory": [[_value(point.memory, device) for point in points] for device in range(width)],
        }

    def of_pool(self, since: int) -> Utilisation:
        """Mean busy percent of the measured GPUs, per minute from `since` on."""
        points = [point for point in self._pool if point[0] >= since]
        return {
            "step_s": POOL_STEP_S,
            "times": [point[0] for point in points],
            "busy": [round(point[1] / point[2], 1) for point in points],
        }

    def _count(self, minute: int, busy: bytes) -> None:
        known = [value for value in busy if value != UNKNOWN]
        if not known:
            return
        if self._pool and self._pool[-1][0] >= minute:
            self._pool[-1][1] += sum(known)
            self._pool[-1][2] += len(known)
        else:
            self._pool.append([minute, sum(known), len(known)])


def _percent(value: int | None) -> int:
    return UNKNOWN if value is None else max(0, min(100, value))


def _share(used: int | None, total: int | None) -> int | None:
    return 100 * used // total if used is not None and total else None


def _means(samples: Sequence[bytes]) -> bytes:
    """The mean of each device's known values."""
    columns = [[sample[device] for sample in samples if device < len(sample)] for device in range(max(map(len, samples)))]
    known = [[value for value in column if value != UNKNOWN] for column in columns]
    return bytes(sum(values) // len(values) if values else UNKNOWN for values in known)


def _value(values: bytes, device: int) -> int | None:
    return values[device] if device < len(values) and values[device] != UNKNOWN else None
