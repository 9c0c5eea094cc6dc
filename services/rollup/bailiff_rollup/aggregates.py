"""Aggregates of one pool: counters since its log began and since each open window began.

A pure function of the log's records up to `next_seq`: replicas agree, and no record counts twice. A counter has a name and
labels; levels (GPUs in use, pending jobs) are integrated over log time.
"""

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from bailiff_core.records.chain import GENESIS

from .telemetry_rollup import TelemetryRollup
from .windowed_counters import LENGTHS, Counters, WindowName, from_pairs, to_pairs

SCHEMA = 2
LONGEST_GAP = 35 * LENGTHS["1d"]  # without a record; over more than that no window is published
COMPRESS_FROM = 256 * 1024  # bytes: the aggregates of a thousand projects exceed Kafka's message size


@dataclass(slots=True)
class Window:
    """Counters since `begin`, µs on log time, aligned to UTC. first_seq: the record that opened the window."""

    begin: int
    first_seq: int
    sums: Counters = field(default_factory=dict)


class WindowSnapshot(NamedTuple):
    """A window as of `end`, µs. complete: whether it ended there."""

    name: WindowName
    window: Window
    end: int
    complete: bool


class Entitlement(NamedTuple):
    """A project's quota, limit and fair share in thousandths of GPUs; None: unlimited. requested: allocated plus pending."""

    quota: int | None
    limit: int | None
    share: int
    requested: int


@dataclass(slots=True)
class Aggregates:
    """next_seq: of the first record not included; hash: of the last one included. integrated_to: log time, µs, of the levels.

    sample: each project's entitlement at the newest sample; sample_minute: its minute of log time. traces: open spans of
    `traces.py`. evictions: those that go on, as `eviction_times.py` measures them. telemetry: aggregates of telemetry, stored
    together so that both are one value.
    """

    next_seq: int = 0
    hash: str = GENESIS
    integrated_to: int = 0
    totals: Counters = field(default_factory=dict)
    windows: dict[WindowName, Window] = field(default_factory=dict)
    levels: Counters = field(default_factory=dict)
    sample: dict[str, Entitlement] = field(default_factory=dict)
    sample_minute: int = -1
    traces: dict[str, Any] = field(default_factory=dict)
    evictions: dict[str, Any] = field(default_factory=dict)
    telemetry: TelemetryRollup = field(default_factory=TelemetryRollup)

    @property
    def size(self) -> int:
        """Number of records and telemetry messages included."""
        return self.next_seq + self.telemetry.messages

    def add(self, *key: str, amount: int = 1) -> None:
        """Add to a counter, in the totals and in every open window."""
        if amount:
            self.totals[key] = self.totals.get(key, 0) + amount
            for window in self.windows.values():
                window.sums[key] = window.sums.get(key, 0) + amount

    def add_time(self, name: str, *labels: str, micros: int, limits: Sequence[float]) -> None:
        """Add a duration to a histogram of the totals: its bucket, by upper bound in seconds, and its sum in milliseconds."""
        bound = next((str(limit) for limit in limits if micros <= limit * 1_000_000), "+Inf")
        for key, amount in (((name, *labels, bound), 1), ((f"{name}-ms", *labels), micros // 1_000)):
            self.totals[key] = self.totals.get(key, 0) + amount

    def add_to_window(self, name: WindowName, *key: str) -> None:
        """Add 1 to a counter of this window only; in the totals the window's name is the last label."""
        labelled = (*key, name)
        self.totals[labelled] = self.totals.get(labelled, 0) + 1
        if name in self.windows:
            sums = self.windows[name].sums
            sums[key] = sums.get(key, 0) + 1

    def level(self, *key: str, change: int) -> None:
        """Change a level. It must have been integrated to the present log time."""
        if change:
            self.levels[key] = self.levels.get(key, 0) + change
            if not self.levels[key]:
                del self.levels[key]

    def advance(self, time: int, stepped: int = 0) -> Iterator[WindowSnapshot]:
        """Advance log time to `time`, µs. stepped: length of a clock step at the end, which is not integrated, µs.

        Yields windows to publish, each valid until the next one is requested: every window at its end, and the longer ones
        also at the end of the last minute.
        """
        if not self.windows:
            self.integrated_to = time
            for name, length in LENGTHS.items():
                self.windows[name] = Window(time - time % length, self.next_seq)
        if stepped > 0:
            yield from self._roll(time - stepped)
            yield from self._skip_to(time)
        elif time - self.integrated_to > LONGEST_GAP:
            for key, level in self.levels.items():
                self.totals[key] = self.totals.get(key, 0) + level * (time - self.integrated_to)
            yield from self._skip_to(time)
        yield from self._roll(time)

    def _skip_to(self, time: int) -> Iterator[WindowSnapshot]:
        """Publish the open windows that are over by then, and none in between: a clock may step by years."""
        self.integrated_to = time
        for name, window in self.windows.items():
            end = window.begin + LENGTHS[name]
            if end <= time:
                yield WindowSnapshot(name, window, end, True)
                self.windows[name] = Window(time - time % LENGTHS[name], self.next_seq)

    def _roll(self, time: int) -> Iterator[WindowSnapshot]:
        end = self.windows["1m"].begin + LENGTHS["1m"]
        while end <= time:
            self._accumulate(end)
            for name, window in self.windows.items():
                complete = window.begin + LENGTHS[name] <= end
                if complete or end + LENGTHS["1m"] > time:
                    yield WindowSnapshot(name, window, end, complete)
                if complete:
                    self.windows[name] = Window(end, self.next_seq)
            end += LENGTHS["1m"]
        self._accumulate(time)

    def _accumulate(self, until: int) -> None:
        """Integrate the levels up to this time."""
        elapsed = until - self.integrated_to
        if elapsed > 0:
            for key, level in self.levels.items():
                self.add(*key, amount=level * elapsed)
            self.integrated_to = until

    def to_bytes(self) -> bytes:
        """Serialize without the levels, which follow from the state. Uses `json`: counters exceed 64 bits."""
        data = {
            "schema": SCHEMA,
            "next_seq": self.next_seq,
            "hash": self.hash,
            "integrated_to": self.integrated_to,
            "sample_minute": self.sample_minute,
            "traces": self.traces,
            "evictions": self.evictions,
            "telemetry": self.telemetry.to_data(),
            "totals": to_pairs(self.totals),
            "sample": self.sample,
            "windows": {name: [window.begin, window.first_seq, to_pairs(window.sums)] for name, window in self.windows.items()},
        }
        plain = json.dumps(data, separators=(",", ":")).encode()
        return zlib.compress(plain, level=1) if len(plain) >= COMPRESS_FROM else plain

    @classmethod
    def from_bytes(cls, stored: bytes) -> Self | None:
        """Deserialize. Returns None if the schema is another release's."""
        data = json.loads(stored if stored.startswith(b"{") else zlib.decompress(stored))
        if data["schema"] != SCHEMA:
            return None
        return cls(
            next_seq=data["next_seq"],
            hash=data["hash"],
            integrated_to=data["integrated_to"],
            sample_minute=data["sample_minute"],
            traces=data["traces"],
            evictions=data["evictions"],
            telemetry=TelemetryRollup.from_data(data["telemetry"]),
            totals=from_pairs(data["totals"]),
            sample={name: Entitlement(*values) for name, values in data["sample"].items()},
            windows={name: Window(begin, seq, from_pairs(sums)) for name, (begin, seq, sums) in data["windows"].items()},
        )
