"""Tunes garbage collection for a process that keeps a large state.

The state consists of many small, long-lived objects: the default collection of young objects every 700 allocations costs a
tenth of a fold.
"""

import gc

YOUNG_OBJECTS = 50_000


def raise_thresholds() -> None:
    """Collect young objects less often, for the whole process."""
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)


def freeze_objects() -> None:
    """Exclude all objects that exist now from later collections."""
    gc.freeze()


def unfreeze_and_collect() -> None:
    """Collect what `freeze_objects` excluded: a dropped state can be large."""
    gc.unfreeze()
    gc.collect()
