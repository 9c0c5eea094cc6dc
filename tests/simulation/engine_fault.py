"""An injected fault of the engine: placement of certain jobs raises. All services of the simulation share it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bailiff_core.actions import allocate

SOUND = allocate._find


@contextmanager
def engine_fails_on(jobs: Mapping[str, str]) -> Iterator[None]:
    """Deciding on these jobs fails inside the context, `always` or `once pending`."""

    def faulty(pool: Any, unit: Any, backfill: Any) -> Any:
        job = unit.job
        when = jobs.get(job.id)
        if when == "always" or (when == "once pending" and job.pending_recorded):
            raise ArithmeticError(f"injected fault for {job.id}")
        return SOUND(pool, unit, backfill)

    with _find_is(faulty if jobs else SOUND):
        yield


@contextmanager
def sound_engine() -> Iterator[None]:
    """Remove the fault inside the context, as for a replay with a repaired engine."""
    with _find_is(SOUND):
        yield


@contextmanager
def _find_is(find: Any) -> Iterator[None]:
    present, allocate._find = allocate._find, find
    try:
        yield
    finally:
        allocate._find = present
