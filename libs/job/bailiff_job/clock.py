"""The two clocks that nobody can set: deadlines come on the machine's boot-time clock, intervals are monotonic."""

import time
from typing import Callable

monotonic: Callable[[], float] = time.monotonic


def boottime_ns() -> int:
    """Nanoseconds since the machine was started; where there is no such clock (not on Linux), monotonic ones."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
