"""How often a process looks for garbage, and where.

A state is many small objects that stay: to look at the new ones every 700, as Python does, costs a tenth of a fold.
"""

import gc

YOUNG_OBJECTS = 50_000


def look_seldom() -> None:
    """From now on, for all of this process."""
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)


def state_stays() -> None:
    """No garbage is looked for, now or later, in anything that there is at this moment."""
    gc.freeze()


def state_is_gone() -> None:
    """What stayed is looked through again, and what nobody holds any more is freed: a state can be large."""
    gc.unfreeze()
    gc.collect()
