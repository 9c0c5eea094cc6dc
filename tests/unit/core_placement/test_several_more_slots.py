"""The cheapest victims for several more tasks: components are searched once, and again only without a job that runs there."""

import pytest
from tests.builders import HOUR, Sketch, group

from bailiff_core.model.demand import TaskGroup
from bailiff_core.placement import StepBudget
from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import knapsack
from bailiff_core.victims.candidates import CandidateIndex, EvictionStep
from bailiff_core.victims.knapsack import Knapsack, KnapsackCache, knapsack_for


def knapsack_of(sketch: Sketch, asked: TaskGroup, *, single: bool = False) -> Knapsack:
    """The search for tasks of these requirements among all jobs of lower priority."""
    snapshot = current_snapshot(sketch.state)
    index = CandidateIndex(snapshot)
    candidates = index.candidates("preempt", sketch.job("preemptor", asked, priority=75))
    return Knapsack(snapshot.cluster, TaskRequirements.of(asked), candidates, index.fragmentation, single=single)


class Search:
    """Two nodes, each with six jobs of one GPU that all free something else."""

    def __init__(self) -> None:
        sketch = Sketch()
        for name in ("a", "b"):
            sketch.node(name, gpus=6)
            for number in range(6):
                sketch.at(sketch.job(f"{name}{number}", group(gpus=1, cpu=1 + number)), (name, [number]), age=HOUR)
        self.knapsack = knapsack_of(sketch, group(2, gpus=2))
        self.steps: dict[str, EvictionStep] = {name: chain[0] for name, chain in self.knapsack.candidates.chains.items()}

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


# --- components


def components(made: Knapsack) -> list[tuple[str, list[str]]]:
    """Nodes and jobs of each."""
    return [("".join(node.name for node in part.nodes), list(part.names)) for part in made.parts]


def four_nodes(**about: int) -> Sketch:
    sketch = Sketch()
    for name in "abcd":
        sketch.node(name, **about)
    return sketch


def test_nodes_of_a_gang_on_cpus_are_one_component() -> None:
    sketch = four_nodes(gpus=0, cpu=4)
    sketch.at(sketch.job("pair", group(2, cpu=4)), ("a", []), ("b", []))
    sketch.at(sketch.job("three", group(3, cpu=1)), ("d", []), ("c", []), ("c", []))
    assert components(knapsack_of(sketch, group(cpu=4))) == [("ab", ["pair"]), ("cd", ["three"])]


def test_gangs_that_meet_on_a_node_that_may_not_be_used_connect_their_others() -> None:
    """The nodes that they leave in part are counted for both together."""
    sketch = four_nodes(gpus=2)
    for name, at in (("first", "a"), ("second", "b")):
        number = int(name == "second")
        sketch.at(sketch.job(name, group(2, gpus=1)), (at, [0]), ("d", [number]))
    asked = group(gpus=2, nodes=("a", "b", "c"))
    assert components(knapsack_of(sketch, asked)) == [("ab", ["first", "second"]), ("c", [])]
    assert components(knapsack_of(sketch, asked, single=True)) == [("a", ["first"]), ("b", ["second"]), ("c", [])]


def test_a_job_on_nodes_that_may_not_be_used_is_in_no_component() -> None:
    sketch = four_nodes(gpus=2)
    sketch.at(sketch.job("pair", group(2, gpus=1)), ("c", [0]), ("d", [0]))
    assert components(knapsack_of(sketch, group(gpus=2, nodes=("a",)))) == [("a", [])]


# --- sets of a component


def two_kinds_of_jobs(cpu: int = 1000) -> Sketch:
    """Two jobs of a GPU each on the only node, which do not free the same."""
    sketch = Sketch()
    sketch.node("a", gpus=2, cpu=cpu)
    for number in range(2):
        sketch.at(sketch.job(f"j{number}", group(gpus=1, gib=1 + number)), ("a", [number]))
    return sketch


def test_a_component_in_which_all_victims_together_make_no_room_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knapsack, "SETS_PER_STEP", 1)
    made, budget = knapsack_of(two_kinds_of_jobs(cpu=1), group(gpus=1, cpu=2)), StepBudget(100)
    assert [made.options(part, budget) for part in made.parts] == [[]]
    assert budget.used == 0


@pytest.mark.parametrize(("most", "known"), [(0, False), (1, False), (2, False), (3, True)])
def test_a_component_with_more_sets_than_may_be_tried_is_not_known(
    monkeypatch: pytest.MonkeyPatch, most: int, known: bool
) -> None:
    """Three sets: one job, the other, and both, which free a place."""
    monkeypatch.setattr(knapsack, "MAX_SETS_PER_COMPONENT", most)
    made = knapsack_of(two_kinds_of_jobs(), group(gpus=2))
    (part,) = made.parts
    options = made.options(part, StepBudget(100))
    assert (options is not None) is known
    assert options is None or [[step.job.id for step in option.steps] for option in options] == [["j0", "j1"]]
    assert options is None or [option.key[0] for option in options] == [made.fragmentation.weight(options[0].steps)]


def test_tasks_that_go_before_one_on_the_node_are_no_set_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knapsack, "SETS_PER_STEP", 1)
    sketch = four_nodes(gpus=1)
    wide = sketch.at(sketch.job("wide", group(4, gpus=1)), *((name, [0]) for name in "abcd"))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    made, budget = knapsack_of(sketch, group(gpus=1), single=True), StepBudget(100)
    found = {part.nodes[0].name: made.options(part, budget) or [] for part in made.parts}
    assert {name: [len(option.steps) for option in options] for name, options in found.items()} == {
        "a": [4],
        "b": [3],
        "c": [2],
        "d": [1],
    }
    assert budget.used == 4, "one set for each node"


def test_searches_for_equal_tasks_are_shared_among_those_that_lack_one_slot_and_among_the_others() -> None:
    made = Search().knapsack
    cache: KnapsackCache = {}
    found = [
        knapsack_for(cache, made.cluster, made.need, made.candidates, made.fragmentation, wanted) for wanted in (1, 2, 3, 1, 2)
    ]
    assert [short for _, short in found] == [1, 2, 3, 1, 2]
    one, two, three, again_one, again_two = (knapsack for knapsack, _ in found)
    assert (one.single, two.single) == (True, False)
    assert again_one is one
    assert two is three is again_two
