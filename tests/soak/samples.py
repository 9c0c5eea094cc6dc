"""What is measured during a soak, and whether it is at the end what it was after the first hour."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

ALLOWED = 1.10
"""The end may have so many times as much as after the first hour."""
FIRST_S = 3600.0
WINDOW = 6
"""Each comparison is of the last sixth of the first hour, and of an equal time at the end."""


@dataclass(frozen=True)
class Sample:
    """All services at one moment. at: s since the start. memory: PSS, KiB. files: open handles. disk: of topics, bytes."""

    at: float
    memory: int
    files: int
    disk: Mapping[str, int]
    jobs: int


@dataclass(frozen=True)
class Comparison:
    """One figure after the first hour and at the end."""

    what: str
    unit: str
    first: float
    end: float

    @property
    def holds(self) -> bool:
        """Whether the end is within 10 % of the first hour, or below it."""
        return self.end <= self.first * ALLOWED

    def __str__(self) -> str:
        judged = "within 10 %" if self.holds else "MORE THAN 10 % ABOVE"
        return f"{self.what:<46}{self.first:>10.1f} {self.end:>10.1f} {self.unit:<8}{judged}"


def compare(samples: Sequence[Sample], latencies: Sequence[tuple[float, float]], seconds: float) -> list[Comparison]:
    """Figures of a run of so many seconds; of one below two hours its first half counts as the first hour.

    latencies: (s since the start, ms) of each probe. Raises `ValueError` if a window has no sample.
    """
    first = _first(seconds)
    window = first / WINDOW

    def within(end: float, values: Sequence[tuple[float, float]]) -> float:
        found = [value for at, value in values if end - window <= at <= end]
        if not found:
            raise ValueError(f"nothing was measured from {end - window:.0f} to {end:.0f} s")
        return median(found)

    def both(what: str, unit: str, values: Sequence[tuple[float, float]]) -> Comparison:
        return Comparison(what, unit, within(first, values), within(seconds, values))

    def of(value: Callable[[Sample], float]) -> list[tuple[float, float]]:
        return [(sample.at, value(sample)) for sample in samples]

    return [
        both("memory of all services (PSS), median", "MiB", of(lambda sample: sample.memory / 1024)),
        both("their open file handles, median", "", of(lambda sample: sample.files)),
        both("request published → on record, median", "ms", latencies),
        Comparison("disk of Kafka per job", "kB", *(sum(found.values()) for found in _disk_of_both_hours(samples, seconds))),
    ]


def disk_by_topic(samples: Sequence[Sample], seconds: float) -> Iterator[tuple[str, float, float]]:
    """Topics with their kB per job in the first hour and at the end, largest first."""
    first, end = _disk_of_both_hours(samples, seconds)
    for topic in sorted(end, key=lambda topic: -end[topic]):
        yield topic, first.get(topic, 0.0), end[topic]


def _first(seconds: float) -> float:
    return min(FIRST_S, seconds / 2)


def _disk_of_both_hours(samples: Sequence[Sample], seconds: float) -> tuple[dict[str, float], dict[str, float]]:
    first = _first(seconds)
    return _disk_per_job(samples, 0, first), _disk_per_job(samples, seconds - first, seconds)


def _disk_per_job(samples: Sequence[Sample], begin: float, end: float) -> dict[str, float]:
    """kB that Kafka's logs grew by from begin to end, by topic, for each job submitted then."""
    found = [sample for sample in samples if begin <= sample.at <= end]
    jobs = found[-1].jobs - found[0].jobs if found else 0
    if not jobs:
        raise ValueError(f"no job was submitted from {begin:.0f} to {end:.0f} s")
    before, after = found[0].disk, found[-1].disk
    return {topic: (size - before.get(topic, 0)) / jobs / 1000 for topic, size in after.items()}
