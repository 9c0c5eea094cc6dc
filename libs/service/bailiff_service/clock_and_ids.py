"""Clocks and random ids of a service; the simulation injects its own."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass


def _wall() -> int:
    return time.time_ns() // 1000


def _boot() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


@dataclass(frozen=True, slots=True)
class ClockAndIds:
    """Sources of time and randomness.

    wall: µs UTC, may jump. boot: µs since boot, monotonic, includes suspend. random_bytes: 16 random bytes.
    """

    wall: Callable[[], int] = _wall
    boot: Callable[[], int] = _boot
    random_bytes: Callable[[], bytes] = lambda: secrets.token_bytes(16)


SYSTEM = ClockAndIds()
