"""Result of a placement search: the placement of every task of a unit, or the reason why there is none."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class TaskPlacement:
    """One task's node number and mask of devices."""

    index: int
    node: int
    devices: int


@dataclass(frozen=True, slots=True)
class GangPlacement:
    """Placement of every task of a unit.

    Attributes:
        future: Some of the resources are still releasing, so that all are only reserved.
    """

    tasks: tuple[TaskPlacement, ...]
    future: bool


@dataclass(frozen=True, slots=True)
class NoFit:
    """No placement. `impossible` is proven; `gave-up`: the step budget ran out before the search was complete."""

    kind: Literal["impossible", "gave-up"]
    why: str
