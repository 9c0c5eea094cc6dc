"""Running evictions, so that a restarted agent enforces the same deadlines."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .journal import JournalOf, Keyed
from .storage import Storage


@dataclass(frozen=True)
class RunningEviction(Keyed):
    """Times are durations from the notice, on CLOCK_BOOTTIME of the boot that `boot_id` names."""

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


class EvictionStore(JournalOf[RunningEviction]):
    def __init__(self, storage: Storage) -> None:
        super().__init__(storage, "evictions", RunningEviction)

    def running(self) -> list[RunningEviction]:
        return [self._values[key] for key in sorted(self._values)]

    def begin(self, eviction: RunningEviction) -> None:
        """Does nothing if one is running: a repeated command must not change the deadlines."""
        if eviction.key not in self._values:
            self.put(eviction)

    def shorten(self, eviction: RunningEviction) -> None:
        """The same eviction with earlier deadlines."""
        assert eviction.kill_boottime_us < self._values[eviction.key].kill_boottime_us
        self.put(eviction)

    def reached(self, key: str, stage: str) -> None:
        self.put(replace(self._values[key], stage=stage))
