"""How often a process looks for garbage.

A state is many small objects that stay: to look at the new ones every 700, as Python does, costs a tenth of a fold.
"""

import gc

YOUNG_OBJECTS = 50_000


def look_seldom() -> None:
    """From now on, for all of this process."""
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)
