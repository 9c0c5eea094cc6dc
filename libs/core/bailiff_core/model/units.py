"""Units: what is placed together and what leaves together (semantics §2 and §3).

Below its minimum a job asks for all that is missing at once, at its minimum for one task more. It loses one surplus task
at a time, and after those its core, whole.
"""

from dataclasses import dataclass

from .pool import Job


@dataclass(frozen=True, slots=True)
class Unit:
    """Members of one gang, by index, in the order in which they are placed. `core`: without them the job does not run."""

    job: Job
    indices: tuple[int, ...]
    core: bool


def next_unit(job: Job) -> Unit | None:
    """What the job asks for next, or `None` when all its tasks have a place."""
    raise NotImplementedError


def victim_units(job: Job) -> list[Unit]:
    """All that the job can lose, in the order in which it would: each on top of those before it."""
    raise NotImplementedError
