"""The cheapest victims for several more tasks: components are searched once, and again only without a job that runs there."""

import pytest
from tests.builders import HOUR, Sketch, group

from bailiff_core.placement import StepBudget
from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.candidates import CandidateIndex, EvictionStep
from bailiff_core.victims.knapsack import Knapsack


class Search:
    """Two nodes, each with six jobs of one GPU that all free something else."""

    def __init__(self) -> None:
        sketch = Sketch()
        for name in ("a", "b"):
            sketch.node(name, gpus=6)
            for number in range(6):
                sketch.at(sketch.job(f"{name}{number}", group(gpus=1, cpu=1 + number)), (name, [number]), age=HOUR)
        snapshot = current_snapshot(sketch.state)
        index = CandidateIndex(snapshot)
        candidates = index.candidates("preempt", sketch.job("preemptor", group(2, gpus=2), priority=75))
        self.steps: dict[str, EvictionStep] = {name: chain[0] for name, chain in candidates.chains.items()}
        need = TaskRequirements.of(group(gpus=2))
        self.knapsack = Knapsack(snapshot.cluster, need, candidates, index.fragmentation, single=False)

    def cost(self, without: str | None = None) -> tuple[list[str], int]:
        """The victims for two tasks, and the steps that the search took."""
        budget = StepBudget(10_000)
        found, certain = self.knapsack.cheapest(2, budget, self.steps[without] if without else None)
        assert certain
        assert found is not None
        return sorted(step.job.id for step in found), budget.used


def test_the_second_search_of_the_same_components_costs_less() -> None:
    search = Search()
    victims, first = search.cost()
    again, second = search.cost()
    assert (victims, again) == (["b2", "b3", "b4", "b5"],) * 2
    _, third = search.cost()
    assert first > second == third


@pytest.mark.parametrize("kept", ["a0", "b5"])
def test_without_a_job_only_its_component_is_searched_again(kept: str) -> None:
    search = Search()
    _, first = search.cost()
    _, known = search.cost()
    victims, once_more = search.cost(without=kept)
    assert kept not in victims
    assert 0 < once_more - known <= (first - known) // 2


def test_with_too_few_steps_for_a_component_nothing_is_certain() -> None:
    search = Search()
    assert search.knapsack.cheapest(2, StepBudget(1)) == (None, False)


def test_more_slots_than_all_components_may_gain_are_impossible() -> None:
    assert Search().knapsack.cheapest(7, StepBudget(10_000)) == (None, True)
