"""Running evictions, so that a restarted agent enforces the same deadlines."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .journal import Journal
from .storage import Storage


@dataclass(frozen=True)
class RunningEviction:
    """Times are durations from the notice, on CLOCK_BOOTTIME of the boot that `boot_id` names."""

    key: str
    notice_boottime_us: int
    grace_us: int
    kill_after_us: int
    """Time from the end of the grace to KILL."""
    stage: str
    boot_id: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    """What the agent needs to continue after a restart (reason, preemptor, …); JSON only."""

    @property
    def term_boottime_us(self) -> int:
        return self.notice_boottime_us + self.grace_us

    @property
    def kill_boottime_us(self) -> int:
        return self.term_boottime_us + self.kill_after_us


class EvictionStore:
    def __init__(self, storage: Storage) -> None:
        self._journal = Journal(storage, "evictions")
        self._running: dict[str, RunningEviction] = {}
        for entry in self._journal.entries:
            match entry:
                case {"key": _}:
                    self._running[entry["key"]] = RunningEviction(**entry)
                case {"ended": str(key)}:
                    self._running.pop(key, None)
                case _:
                    raise ValueError(f"evictions: unknown entry {entry}")

    def running(self) -> list[RunningEviction]:
        return [self._running[key] for key in sorted(self._running)]

    def get(self, key: str) -> RunningEviction | None:
        return self._running.get(key)

    def begin(self, eviction: RunningEviction) -> None:
        """Does nothing if one is running: a repeated command must not change the deadlines."""
        if eviction.key not in self._running:
            self._journal.add(asdict(eviction))
            self._running[eviction.key] = eviction

    def shorten(self, eviction: RunningEviction) -> None:
        """The same eviction with earlier deadlines."""
        assert eviction.kill_boottime_us < self._running[eviction.key].kill_boottime_us
        self.renew(eviction)

    def renew(self, eviction: RunningEviction) -> None:
        """The same eviction with other details."""
        self._journal.add(asdict(eviction))
        self._running[eviction.key] = eviction

    def reached(self, key: str, stage: str) -> None:
        self.renew(replace(self._running[key], stage=stage))

    def end(self, key: str) -> None:
        if key not in self._running:
            return
        self._journal.add({"ended": key})
        del self._running[key]
        if len(self._journal) > 100 + 2 * len(self._running):
            self._journal.rewrite([asdict(eviction) for eviction in self._running.values()])
