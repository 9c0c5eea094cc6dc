"""Past use of GPUs, decayed by half-lives, in integers alone: the same on every machine, however often it is added up.

Time is counted in steps of 1/256 of the half-life since the epoch. What was used in earlier steps is multiplied by 2^(-1/256)
for each step since; within a step nothing decays.
"""

from math import isqrt

from .resource_vector import UNLIMITED, Amount
from .state import PastUse, ProjectUse

STEPS_BITS = 8
STEPS = 1 << STEPS_BITS  # in a half-life
ONE_BITS = 64  # fixed point
ONE = 1 << ONE_BITS


def _roots() -> list[int]:
    """2^(-1/256), 2^(-2/256), … 2^(-1/2), by repeated square roots."""
    found = [isqrt(ONE * ONE >> 1)]
    while len(found) < STEPS_BITS:
        found.append(isqrt(found[-1] << ONE_BITS))
    return found[::-1]


ROOTS = _roots()


def decayed(amount: int, steps: int) -> int:
    """The amount × 2^(-steps/256), rounded down."""
    halvings, rest = divmod(steps, STEPS)
    for bit, root in enumerate(ROOTS):
        if rest >> bit & 1:
            amount = amount * root >> ONE_BITS
    return amount >> halvings


def add_up(use: ProjectUse, past: PastUse, quota: Amount, now: int) -> None:
    """Adds what the project has used beyond its quota (thousandths of a GPU; -1: no bound) since `use.since`."""
    step = past.half_life // STEPS
    beyond = 0 if quota == UNLIMITED else max(0, use.held - int(quota))
    first, last = use.since // step, now // step
    if first == last:
        use.used += beyond * (now - use.since)
    else:
        whole = _sum_of_powers(last - first - 1)  # of the steps between
        rest = use.used + beyond * ((first + 1) * step - use.since)
        use.used = decayed(rest, last - first) + (beyond * step * whole >> ONE_BITS) + beyond * (now - last * step)
    use.since = now


def average(used: int, half_life: int) -> int:
    """The mean over the past, by which a use that never changes is itself: thousandths of a GPU, rounded down."""
    return (used * (ONE - ROOTS[0])) // (half_life // STEPS << ONE_BITS)


def _sum_of_powers(count: int) -> int:
    """2^(-1/256) + 2^(-2/256) + … of this many, in fixed point."""
    return (ONE - decayed(ONE, count)) * ROOTS[0] // (ONE - ROOTS[0])
