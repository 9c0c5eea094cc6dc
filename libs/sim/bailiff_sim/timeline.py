"""Virtual time: the queue of scheduled events."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from .simulated_log import InputFact

Callback = Callable[..., Iterator[InputFact]]


@dataclass(frozen=True, slots=True)
class Delays:
    """Delays in a pool, µs.

    Attributes:
        start: From the start command to a running task.
        release: From a task's exit until its GPU is seen free.
        selection: Until the proposal of victim selection.
        exit: From the eviction notice to the exit of a job that does not save. If all are 0, results depend only on the trace
            and the policy.
        measured: Known delays by (kind, job, attempt); of a selection ("selection", "", its number).
    """

    start: int = 0
    release: int = 0
    selection: int = 0
    exit: int = 0
    measured: Mapping[tuple[str, str, int], int] = field(default_factory=dict)

    def of(self, kind: str, job: str, attempt: int) -> int:
        """Returns the measured delay, or the default of its kind. kind: a field of this class."""
        default: int = getattr(self, kind)
        return self.measured.get((kind, job, attempt), default)


NO_DELAYS = Delays()


class Timeline:
    """The event queue.

    Attributes:
        now: µs UTC.
        events: Callbacks that yield facts, by time and then in order of scheduling.
    """

    def __init__(self, begin: int, delays: Delays) -> None:
        self.now, self.delays = begin, delays
        self.events: list[tuple[int, int, Callback, tuple[Any, ...]]] = []
        self._order = 0

    def schedule(self, time: int, callback: Callback, *args: object) -> None:
        """Schedules a callback at `time`, µs UTC."""
        self._order += 1
        heappush(self.events, (time, self._order, callback, args))

    def run_after(self, delay: int, callback: Callback, *args: object) -> Iterator[InputFact]:
        """Runs the callback now if the delay is 0, else schedules it."""
        if not delay:
            yield from callback(*args)
        else:
            self.schedule(self.now + delay, callback, *args)

    def due(self) -> Iterator[InputFact]:
        """Runs the callbacks that are due."""
        while self.events and self.events[0][0] <= self.now:
            _, _, callback, args = heappop(self.events)
            yield from callback(*args)
