"""A fault in the engine itself: looking for a place for certain jobs raises. The world's services share it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bailiff_core.actions import allocate

SOUND = allocate._find


@contextmanager
def engine_fails_on(jobs: Mapping[str, str]) -> Iterator[None]:
    """Meanwhile deciding on these jobs fails, each `always`, or `once it waits`."""

    def faulty(pool: Any, unit: Any, backfill: Any) -> Any:
        job = unit.job
        when = jobs.get(job.id)
        if when == "always" or (when == "once it waits" and job.pending_recorded):
            raise ArithmeticError(f"a fault was put in for {job.id}")
        return SOUND(pool, unit, backfill)

    with _find_is(faulty if jobs else SOUND):
        yield


@contextmanager
def sound_engine() -> Iterator[None]:
    """Meanwhile it works, as for somebody who has it repaired and decides an old log again."""
    with _find_is(SOUND):
        yield


@contextmanager
def _find_is(find: Any) -> Iterator[None]:
    present, allocate._find = allocate._find, find
    try:
        yield
    finally:
        allocate._find = present
