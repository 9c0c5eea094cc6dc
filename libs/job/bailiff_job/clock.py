"""The boot-time clock, on which deadlines are given, and the monotonic clock for intervals."""

import time
from typing import Callable

monotonic: Callable[[], float] = time.monotonic


def boottime_ns() -> int:
    """Nanoseconds since the machine booted; on systems without this clock (not Linux), the monotonic clock."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
