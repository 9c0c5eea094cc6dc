"""What a protection is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit

Shield = Callable[[Unit], bool]
SetTest = Callable[[Sequence[Unit]], str | None]  # why these units may not all be evicted, or `None`
Ends = Callable[[Job], int | None]  # when a shield of time ends for a job, µs


@dataclass(frozen=True, slots=True)
class Rule:
    """`shield(state, action, preemptor)`: the test whether a unit is excluded, or `None` where the protection is off.

    position: of the protections that exclude a unit, the lowest is named. says: ends the phrase "a job that". by_group: the
    test depends on the phase, priority, project and preemptibility of the unit's job only. ends: of a protection that ends with
    time, until when it holds, or `None` where it is off. together: the test of a set of victims, or `None` where it is off.
    """

    position: int
    name: str
    shield: Callable[[PoolState, Action, Job], Shield | None]
    says: str
    by_group: bool = False
    ends: Callable[[PoolState, Action, Job], Ends | None] | None = None
    together: Callable[[PoolState, Action, Job, Sequence[Unit]], SetTest | None] | None = None
