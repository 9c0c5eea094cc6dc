"""What is kept of one domain: sums since its log began, and since each open window began.

All of it is a pure function of the log's records up to `next_seq`, so that whoever folds the same ones has the same, and a
record can never count twice. A sum has a name and labels; what has a level (GPUs in use, jobs that wait) is summed over log time.
"""

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from bailiff_core.records.chain import GENESIS

from .measured import Measured
from .sums import LENGTHS, Sums, WindowName, found, listed

SCHEMA = 1
PACKED_FROM = 256 * 1024  # bytes: those of a thousand projects would be more than Kafka takes in one message


@dataclass(slots=True)
class Window:
    """Sums since `begin`, µs on log time, aligned to UTC. first_seq: the record that opened it."""

    begin: int
    first_seq: int
    sums: Sums = field(default_factory=dict)


class Told(NamedTuple):
    """A window as it stood at `end`, µs. over: it ended there."""

    name: WindowName
    window: Window
    end: int
    over: bool


class Entitled(NamedTuple):
    """What a project may have, in thousandths of GPUs; `None`: no bound. wanted: what it uses and asks for."""

    quota: int | None
    limit: int | None
    share: int
    wanted: int


@dataclass(slots=True)
class Figures:
    """next_seq: of the first record that is not in them; hash: of the last one that is. since: levels are summed up to there.

    sample: what each project may have, as of the newest look; looked: the minute of log time in which that was.
    traces: what `traces.py` still waits for. measured: what is not of the log, and kept with it so that both are one value.
    """

    next_seq: int = 0
    hash: str = GENESIS
    since: int = 0
    totals: Sums = field(default_factory=dict)
    windows: dict[WindowName, Window] = field(default_factory=dict)
    levels: Sums = field(default_factory=dict)
    sample: dict[str, Entitled] = field(default_factory=dict)
    looked: int = -1
    traces: dict[str, Any] = field(default_factory=dict)
    measured: Measured = field(default_factory=Measured)

    @property
    def moved(self) -> int:
        """How many records and measurements are in them."""
        return self.next_seq + self.measured.taken

    def add(self, *key: str, amount: int = 1) -> None:
        """Add to this sum, in the totals and in every open window."""
        if amount:
            self.totals[key] = self.totals.get(key, 0) + amount
            for window in self.windows.values():
                window.sums[key] = window.sums.get(key, 0) + amount

    def add_to_window(self, name: WindowName, *key: str) -> None:
        """Count in this window only; in the totals with the window's name as last label."""
        whole = (*key, name)
        self.totals[whole] = self.totals.get(whole, 0) + 1
        if name in self.windows:
            sums = self.windows[name].sums
            sums[key] = sums.get(key, 0) + 1

    def level(self, *key: str, change: int) -> None:
        """From here on the level is another one: it is summed up to now already."""
        if change:
            self.levels[key] = self.levels.get(key, 0) + change
            if not self.levels[key]:
                del self.levels[key]

    def advance(self, time: int, stepped: int = 0) -> Iterator[Told]:
        """Log time comes to `time`. stepped: the last part of that is a jump of the clock, in which nothing lasted, µs.

        Yields what there is to tell on the way, which is true until the next is asked for: each window when it is over, and
        the longer ones also as they stand when the last of these minutes is over.
        """
        if not self.windows:
            self.since = time
            for name, length in LENGTHS.items():
                self.windows[name] = Window(time - time % length, self.next_seq)
        if stepped > 0:
            yield from self._roll(time - stepped)
            self.since = time
        yield from self._roll(time)

    def _roll(self, time: int) -> Iterator[Told]:
        end = self.windows["1m"].begin + LENGTHS["1m"]
        while end <= time:
            self._settle(end)
            for name, window in self.windows.items():
                over = window.begin + LENGTHS[name] <= end
                if over or end + LENGTHS["1m"] > time:
                    yield Told(name, window, end, over)
                if over:
                    self.windows[name] = Window(end, self.next_seq)
            end += LENGTHS["1m"]
        self._settle(time)

    def _settle(self, until: int) -> None:
        """Sum the levels up to this moment."""
        lasted = until - self.since
        if lasted > 0:
            for key, level in self.levels.items():
                self.add(*key, amount=level * lasted)
            self.since = until

    def to_bytes(self) -> bytes:
        """As stored, without the levels: they follow from the pool. Sums outgrow what other writers of JSON keep exactly."""
        data = {
            "schema": SCHEMA, "next_seq": self.next_seq, "hash": self.hash, "since": self.since, "looked": self.looked,
            "traces": self.traces, "measured": self.measured.to_data(),
            "totals": listed(self.totals), "sample": self.sample,
            "windows": {
                name: [window.begin, window.first_seq, listed(window.sums)] for name, window in self.windows.items()
            },
        }  # fmt: skip
        plain = json.dumps(data, separators=(",", ":")).encode()
        return zlib.compress(plain, level=1) if len(plain) >= PACKED_FROM else plain

    @classmethod
    def from_bytes(cls, stored: bytes) -> Self | None:
        """What was stored; None where another release did, whose sums mean something else."""
        data = json.loads(stored if stored.startswith(b"{") else zlib.decompress(stored))
        if data["schema"] != SCHEMA:
            return None
        return cls(
            next_seq=data["next_seq"], hash=data["hash"], since=data["since"], looked=data["looked"],
            traces=data["traces"], measured=Measured.from_data(data["measured"]) if "measured" in data else Measured(),
            totals=found(data["totals"]),
            sample={name: Entitled(*values) for name, values in data["sample"].items()},
            windows={name: Window(begin, seq, found(sums)) for name, (begin, seq, sums) in data["windows"].items()},
        )  # fmt: skip
