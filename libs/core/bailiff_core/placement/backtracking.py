"""Generic depth-first search with backtracking over trial changes of free resources, within a step budget."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeVar

from .cluster_resources import ClusterResources
from .packing import PlacementScope
from .step_budget import StepBudget

NODES_PER_STEP = 16
Choice = TypeVar("Choice")
Taken = TypeVar("Taken")


def backtrack(
    cluster: ClusterResources,
    scope: PlacementScope,
    budget: StepBudget,
    depth: int,
    choices: Callable[[Sequence[Taken]], Iterator[Choice] | None],
    take: Callable[[int, Choice], Taken],
) -> list[Taken] | Literal["impossible", "gave-up"]:
    """Results of `take` at each of `depth` levels; `cluster` is unchanged. Each choice costs steps in proportion to the nodes.

    choices: choices at the next level, given the results above it; `None` prunes the branch. take: apply one choice of
    that level to `cluster`.
    """
    start = cluster.mark()
    effort = 1 + len(cluster.nodes if scope.within is None else scope.within) // NODES_PER_STEP
    taken: list[Taken] = []
    levels = [choices(taken)]
    marks = [start]
    try:
        while levels:
            cluster.rollback(marks[-1])
            del taken[len(levels) - 1 :]
            if not budget.spend(effort):
                return "gave-up"
            choice = next(levels[-1] or iter(()), None)
            if choice is None:
                levels.pop()
                marks.pop()
                continue
            taken.append(take(len(taken), choice))
            if len(taken) == depth:
                return list(taken)
            next_choices = choices(taken)
            if next_choices is not None:
                marks.append(cluster.mark())
                levels.append(next_choices)
    finally:
        cluster.rollback(start)
    return "impossible"
