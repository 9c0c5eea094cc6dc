"""The definition of a protection."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit

Shield = Callable[[Unit], bool]


@dataclass(frozen=True, slots=True)
class JobsShield:
    """A shield that excludes units of some jobs only: of large pools, these are judged one by one, all others by their class.

    Attributes:
        test: Whether the unit is excluded.
        jobs: The ids of the active jobs that it may exclude, and perhaps of others.
    """

    test: Shield
    jobs: Callable[[], Iterable[str]]

    def __call__(self, unit: Unit) -> bool:
        return self.test(unit)

    @classmethod
    def where(cls, state: PoolState, may_exclude: Callable[[Job], bool], test: Shield) -> "JobsShield":
        """One that excludes units only of jobs for which a cheaper test is true."""
        return cls(test, lambda: (job.id for job in state.active_jobs() if may_exclude(job)))


SetTest = Callable[[Sequence[Unit]], str | None]  # why these units may not all be evicted, or `None`
Ends = Callable[[Job], int | None]  # when a time-based protection of a job ends, µs


@dataclass(frozen=True, slots=True)
class Rule:
    """One protection.

    Attributes:
        position: Of the protections that exclude a unit, the one with the lowest position is named.
        predicate: Completes the phrase "a job that".
        shield: Makes the test whether a unit is excluded; None where the protection is off.
        field: The field of the policy that turns the rule on or off.
        by_group: The test depends on the class of the unit's job only (placement/equivalence_classes.py).
        ends: For a time-based protection, makes the function of its end by job; None where it is off.
        set_test: Makes the test of a set of victims; None where it is off.
    """

    position: int
    name: str
    shield: Callable[[PoolState, Action, Job], Shield | None]
    predicate: str
    field: str = ""
    by_group: bool = False
    ends: Callable[[PoolState, Action, Job], Ends | None] | None = None
    set_test: Callable[[PoolState, Action, Job, Sequence[Unit]], SetTest | None] | None = None
