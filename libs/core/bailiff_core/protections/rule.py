"""What a protection is."""

from collections.abc import Callable
from dataclasses import dataclass

from bailiff_core.model.pool import Job, Pool


@dataclass(frozen=True, slots=True)
class Rule:
    """`excludes(pool, asker, candidate)`: is the candidate shielded? `says` ends the phrase "a job that"."""

    name: str
    excludes: Callable[[Pool, Job, Job], bool]
    says: str
