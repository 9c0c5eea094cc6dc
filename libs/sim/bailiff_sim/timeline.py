"""Virtual time: the queue of scheduled events."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from .simulated_log import Given

Happens = Callable[..., Iterator[Given]]


@dataclass(frozen=True, slots=True)
class Delays:
    """What things take in a pool, µs. start: from the order to a task that runs; release: from its exit to a GPU seen free.

    selection: until victim selection has answered; leave: from the notice to the exit of who does not save. Where all are 0,
    results depend on nothing but the trace and the policy. seen: of these what one took, by its name, job and attempt (of a
    selection: no job, and its number), where that is known.
    """

    start: int = 0
    release: int = 0
    selection: int = 0
    leave: int = 0
    seen: Mapping[tuple[str, str, int], int] = field(default_factory=dict)

    def of(self, what: str, job: str, attempt: int) -> int:
        """What this one takes."""
        usual: int = getattr(self, what)
        return self.seen.get((what, job, attempt), usual)


AT_ONCE = Delays()


class Timeline:
    """now: µs UTC. events: what is to come, each a function that yields facts, by time and then in the order of putting down."""

    def __init__(self, begin: int, delays: Delays) -> None:
        self.now, self.delays = begin, delays
        self.events: list[tuple[int, int, Happens, tuple[Any, ...]]] = []
        self._order = 0

    def at(self, time: int, happens: Happens, *about: object) -> None:
        """Put something down for that moment."""
        self._order += 1
        heappush(self.events, (time, self._order, happens, about))

    def after(self, delay: int, happens: Happens, *about: object) -> Iterator[Given]:
        """At once where the delay is 0, else later."""
        if not delay:
            yield from happens(*about)
        else:
            self.at(self.now + delay, happens, *about)

    def due(self) -> Iterator[Given]:
        """What was put down for now or before."""
        while self.events and self.events[0][0] <= self.now:
            _, _, happens, about = heappop(self.events)
            yield from happens(*about)
