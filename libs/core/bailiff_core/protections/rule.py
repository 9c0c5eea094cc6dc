"""What a protection is."""

from collections.abc import Callable
from dataclasses import dataclass

from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import Unit

Shield = Callable[[Unit], bool]
Ends = Callable[[Job], int | None]  # when a shield of time ends for a job, µs


@dataclass(frozen=True, slots=True)
class Rule:
    """`shield(pool, verb, asker)`: the test whether a unit is shielded, or `None` where the rule is off.

    `says` ends the phrase "a job that". by_group: the test looks at the phase, priority, project and preemptibility of the
    unit's job and at nothing else. ends: of a shield of time, until when it holds, or `None` where it is off.
    """

    name: str
    shield: Callable[[Pool, Verb, Job], Shield | None]
    says: str
    by_group: bool = False
    ends: Callable[[Pool, Verb, Job], Ends | None] | None = None
