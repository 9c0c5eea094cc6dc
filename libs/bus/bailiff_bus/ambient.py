"""What a service takes from its surroundings besides the bus: clocks and fresh ids. Simulation gives its own."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass


def _wall() -> int:
    return time.time_ns() // 1000


def _boot() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


@dataclass(frozen=True, slots=True)
class Ambient:
    """wall: µs UTC, may jump. boot: µs since boot, never jumps and counts sleep. fresh: 16 random bytes."""

    wall: Callable[[], int] = _wall
    boot: Callable[[], int] = _boot
    fresh: Callable[[], bytes] = lambda: secrets.token_bytes(16)


REAL = Ambient()
