"""The times at which GPUs are reserved, and how many are promised to whom at any time."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from bailiff_core.model.state import GpuReservation, PoolState, Repeat

DAY = 86_400_000_000  # µs
THURSDAY = 3  # 1970-01-01; Monday is 0
NOBODY: Mapping[str, int] = {}


class Repeated(Protocol):
    """What says when something happens, once or often."""

    @property
    def begin(self) -> int:
        """Of the first time, µs UTC."""

    @property
    def duration(self) -> int:
        """Of each time, µs."""

    @property
    def repeat(self) -> Repeat:
        """How often."""

    @property
    def weekdays(self) -> Sequence[int]:
        """Of `weekly`; Monday is 0, none: that of `begin`."""

    @property
    def times(self) -> int:
        """How many times in all."""


class Window(NamedTuple):
    """One time of a reservation: from `begin` until before `end`, µs UTC."""

    begin: int
    end: int
    reservation: GpuReservation


def weekday_of(time: int) -> int:
    """The day of the week, UTC; Monday is 0."""
    return (time // DAY + THURSDAY) % 7


def begins_of(each: Repeated, since: int = 0) -> Iterator[int]:
    """When it begins, each time from `since` on, µs. Of `weekly`, first on the first of these weekdays from `begin` on."""
    days, period = [0], 1
    if each.repeat == "weekly":
        first, period = weekday_of(each.begin), 7
        days = sorted({(day - first) % 7 for day in each.weekdays or (first,)})
    skipped = max(0, since - each.begin) // (period * DAY) * len(days)
    for number in range(skipped, each.times):
        week, at = divmod(number, len(days))
        begin = each.begin + (week * period + days[at]) * DAY
        if begin >= since:
            yield begin


def next_window(reservation: GpuReservation) -> Window | None:
    """The first one that is not over by record; `None`: there is none."""
    begin = next(begins_of(reservation, reservation.done), None)
    return None if begin is None else Window(begin, begin + reservation.duration, reservation)


def times_left(reservation: GpuReservation) -> int:
    """How many times are not over by record."""
    return sum(1 for _ in begins_of(reservation, reservation.done))


class Calendar:
    """All windows that are not over by record, soonest first, and what is promised between any two edges of them.

    Attributes:
        edges: Times at which a window begins or ends, µs, each once.
    """

    def __init__(self, reservations: Sequence[GpuReservation]) -> None:
        found = [Window(begin, begin + each.duration, each) for each in reservations for begin in begins_of(each, each.done)]
        self.windows = sorted(found, key=lambda window: (window.begin, window.end, window.reservation.name))
        changes: dict[int, dict[str, int]] = {}
        for begin, end, each in self.windows:
            for time, gpus in ((begin, each.gpus), (end, -each.gpus)):
                at = changes.setdefault(time, {})
                at[each.project] = at.get(each.project, 0) + gpus
        self.edges = sorted(changes)
        self._promised: list[Mapping[str, int]] = []
        now: Mapping[str, int] = NOBODY
        for time in self.edges:
            after = {name: now.get(name, 0) + changes[time].get(name, 0) for name in sorted({**now, **changes[time]})}
            now = {name: gpus for name, gpus in after.items() if gpus}
            self._promised.append(now)

    def promised(self, time: int) -> Mapping[str, int]:
        """The GPUs that are promised at that time, by project."""
        at = bisect_right(self.edges, time)
        return self._promised[at - 1] if at else NOBODY

    def upcoming(self, after: int) -> Iterator[tuple[int, Mapping[str, int]]]:
        """The edges after that time from which something is promised, and what, soonest first."""
        for at in range(bisect_right(self.edges, after), len(self.edges)):
            if self._promised[at]:
                yield self.edges[at], self._promised[at]

    def next_edge(self, after: int) -> int | None:
        """The first edge after that time; `None`: there is none."""
        at = bisect_right(self.edges, after)
        return self.edges[at] if at < len(self.edges) else None

    def at(self, time: int) -> list[Window]:
        """The windows that the time is in."""
        return [window for window in self.windows if window.begin <= time < window.end]


def calendar_of(state: PoolState) -> Calendar:
    """The calendar of the pool's reservations."""
    found = state.indices.calendar
    if not isinstance(found, Calendar):
        found = state.indices.calendar = Calendar(list(state.gpu_reservations.values()))
    return found
