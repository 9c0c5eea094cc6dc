"""x"""

from collections.abc import Iterable
from typing import Any

from tests.kits.log_builder import Story

from bailiff_bus.messages.rollups import RollupWindow
from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead, Wire, follow
from bailiff_log.reader import Entry
from bailiff_rollup.aggregates import Aggregates, WindowSnapshot
from bailiff_rollup.aggregators import Aggregator
from bailiff_rollup.exporter import RollupCollector
from bailiff_rollup.message import message
from bailiff_rollup.windowed_counters import of
from bailiff_service.metrics import Metrics


class Counter:
    """A log counted as the service does, without Kafka."""

    def __init__(self, pool: str = "test") -> None:
        self.state, self.head = PoolState(), ChainHead(pool)
        self.windows: list[RollupWindow] = []
        self.counting = Aggregator(Aggregates(), self._tell)

    @property
    def aggregates(self) -> Aggregates:
        return self.counting.aggregates

    def of(self, name: str) -> dict[tuple[str, ...], int]:
        return of(self.aggregates.totals, name)

    def one(self, name: str) -> int:
        return self.aggregates.totals.get((name,), 0)

    def complete(self, name: str) -> list[RollupWindow]:
        return [window for window in self.windows if window.window == name and window.complete]

    def feed(self, wires: Iterable[Wire]) -> "Counter":
        for wire in wires:
            found = follow(self.head, wire)
            assert isinstance(found, tuple)
            self.head, record = found
            apply(self.state, record)
            self.counting.count(self.state, Entry(record, wire, record.seq, record.time, self.head.hash))
        return self

    def restart(self) -> None:
        """As after a crash: nothing is left but what was stored."""
        stored = Aggregates.from_bytes(self.aggregates.to_bytes())
        assert stored is not None
        self.counting = Aggregator(stored, self._tell)
        self.counting.reset_levels(self.state)

    def _tell(self, snapshots: WindowSnapshot) -> None:
        self.windows.append(message(snapshots, self.aggregates.next_seq))


class Scraped:
    """A story's log, counted, and what was scraped after that."""

    def __init__(self, story: Story) -> None:
        counter = Counter().feed(story.wires)
        metrics = Metrics()
        metrics.registry.register(RollupCollector(lambda: {"test": (counter.aggregates, counter.state)}))
        self._value = metrics.registry.get_sample_value

    def __call__(self, name: str, **labels: str) -> float | None:
        return self._value(name, {"pool": "test", **labels})


def project(name: str, gpus: int) -> dict[str, Any]:
    return {"name": name, "quota": {"gpus": gpus}}
