"""The definition of a protection."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit

Shield = Callable[[Unit], bool]
SetTest = Callable[[Sequence[Unit]], str | None]  # why these units may not all be evicted, or `None`
Ends = Callable[[Job], int | None]  # when a time-based protection of a job ends, µs


@dataclass(frozen=True, slots=True)
class Rule:
    """One protection. shield: makes the test whether a unit is excluded, or `None` where the protection is off.

    position: of the protections that exclude a unit, the lowest is named. predicate: completes the phrase "a job that".
    by_group: the test depends on the phase, priority, project and preemptibility of the unit's job only. ends: for a time-based
    protection, makes the function of its end by job, or `None` where it is off. set_test: makes the test of a set of victims,
    or `None` where it is off.
    """

    position: int
    name: str
    shield: Callable[[PoolState, Action, Job], Shield | None]
    predicate: str
    by_group: bool = False
    ends: Callable[[PoolState, Action, Job], Ends | None] | None = None
    set_test: Callable[[PoolState, Action, Job, Sequence[Unit]], SetTest | None] | None = None
