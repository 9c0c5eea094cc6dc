"""What a protection is."""

from collections.abc import Callable
from dataclasses import dataclass

from bailiff_core.model.pool import Job, Pool


@dataclass(frozen=True, slots=True)
class Rule:
    """`excludes(pool, asker, candidate)` says whether the candidate is shielded from the asker."""

    name: str
    excludes: Callable[[Pool, Job, Job], bool]
