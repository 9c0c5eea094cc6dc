"""Interface of the victim solvers: problem and solution."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bailiff_core.model.policy import Action
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.scheduling_snapshot import SchedulingSnapshot

from .candidates import CandidateIndex, Candidates, EvictionStep
from .constraints import Constraints
from .knapsack import KnapsackCache


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem: the cheapest permitted set of victims whose eviction makes `unit` fit, under one action.

    index: candidates of the batch. under_share: projects whose GPUs count on level 2 of the objective. knapsacks: shared by
    the searches of a batch. Solvers leave the scheduling snapshot unchanged and count their steps in `budget`.
    """

    snapshot: SchedulingSnapshot
    index: CandidateIndex
    unit: Unit
    action: Action
    constraints: Constraints
    under_share: Mapping[str, bool]
    budget: StepBudget
    knapsacks: KnapsackCache

    def candidates(self) -> Candidates:
        """All candidates for this preemptor under the action."""
        return self.index.candidates(self.action, self.unit.job, self.under_share)


@dataclass(slots=True)
class Solution:
    """The best set of victims found, or `None`. proven: no set is cheaper, or, without a set, no set suffices.

    candidates: all that were considered. bound: no set costs less than this one. place, relocations: placements of the
    preemptor and of relocated victims, if the solver determined them. why: the reason for no set, if known.
    """

    candidates: Candidates
    victims: list[EvictionStep] | None = None
    proven: bool = False
    why: str = ""
    runner_up: Sequence[EvictionStep] = ()
    bound: Sequence[EvictionStep] = ()
    place: GangPlacement | None = None
    relocations: dict[str, GangPlacement] = field(default_factory=dict)


class Solver(Protocol):
    """One method of solving the problem."""

    def solve(self, problem: Problem) -> Solution | None:
        """The solution; `None` if this method does not apply or is inconclusive, so that the next solver is tried."""
        ...
