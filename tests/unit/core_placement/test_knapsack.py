"""The cheapest victims for one more or several more tasks, and the weights of sets of victims."""

import random
from itertools import product
from random import Random
from typing import Any

import pytest
from tests.kits.builders import GIB, HOUR, Sketch, group
from tests.kits.searches import ABOVE, FRAGMENTATION, Step, option

from bailiff_core.model.demand import TaskGroup
from bailiff_core.placement import StepBudget
from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import knapsack, slot_combinations
from bailiff_core.victims.candidates import CandidateIndex, EvictionStep
from bailiff_core.victims.consolidation import _by_cost
from bailiff_core.victims.knapsack import Knapsack, best_of
from bailiff_core.victims.objective import node_uses
from bailiff_core.victims.slot_combinations import Option, best_combination

# --- the cheapest options of several components that together gain a number of slots, compared with all combinations


def ages(steps: Any) -> list[int]:
    return sorted(step.age_key[0] for step in steps)


def best(parts: list[list[Option]], short: int, steps: int = 1_000_000) -> list[int] | None:
    found, certain = best_combination(parts, short, FRAGMENTATION, StepBudget(steps))
    assert certain == (found is not None)
    return None if found is None else ages(found)


def combinations(parts: list[list[Option]], short: int) -> list[tuple[int, int, list[int]]]:
    """Weight, number of steps and ages of every combination that gains the slots, cheapest first."""
    found = []
    for chosen in product(*([None, *options] for options in parts)):
        taken = [each for each in chosen if each is not None]
        if sum(each.gain for each in taken) >= short:
            steps = [step for each in taken for step in each.steps]
            found.append((sum(each.key[0] for each in taken), len(steps), ages(steps)))
    return sorted(found)


def some_parts(dice: random.Random) -> list[list[Option]]:
    """Components whose options cost more the more they gain; every age is used once, as a job is in one component."""
    free = list(range(40))
    dice.shuffle(free)
    parts = []
    jumps, costs = dice.choice(((1,), (1, 1, 2))), dice.choice(((1,), (1, 2), (1, 2, 3)))
    for _ in range(dice.randint(1, 5)):
        gain, levels, mine, options = 0, 0, list[int](), list[Option]()
        for _ in range(dice.randint(1, 4)):
            gain, levels = gain + dice.choice(jumps), levels + dice.choice(costs)
            mine = [*(mine if dice.random() < 0.7 else ()), *(free.pop() for _ in range(dice.choice((1, 1, 2))))]
            options.append(option(gain, levels * ABOVE + dice.choice((0, 0, 10, 20)), *mine))
        parts.append(options)
    return parts


@pytest.mark.parametrize("block", range(4))
def test_no_combination_is_cheaper(block: int) -> None:
    for seed in range(block * 150, block * 150 + 150):
        dice = random.Random(seed)
        parts = some_parts(dice)
        short = dice.randint(1, sum(options[-1].gain for options in parts))
        assert best(parts, short) == combinations(parts, short)[0][2], f"seed {seed}"


def test_many_tied_slots_have_the_least_weight_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then ties are broken by fragmentation and grace alone."""
    monkeypatch.setattr(slot_combinations, "MAX_TIED_EFFORT", 0)
    for seed in range(400):
        dice = random.Random(seed)
        parts = some_parts(dice)
        short = dice.randint(1, sum(options[-1].gain for options in parts))
        found = best(parts, short)
        weights = {tuple(each[2]): each[0] for each in combinations(parts, short)}
        assert found is not None
        assert weights[tuple(found)] == min(weights.values()), f"seed {seed}"


def tied(*weights: tuple[int, int]) -> list[list[Option]]:
    """Components of two slots, alike above fragmentation. weights: from fragmentation down, of one slot and of both."""
    return [
        [option(1, ABOVE + one, 2 * at), option(2, 2 * ABOVE + both, 2 * at, 2 * at + 1)]
        for at, (one, both) in enumerate(weights)
    ]


def test_of_many_tied_slots_those_of_younger_jobs_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_combinations, "MAX_TIED_EFFORT", 0)
    assert best(tied((10, 0), (10, 0), (10, 0)), 2) == [0, 1]
    assert best(tied((10, 0), (10, 0), (10, 0)), 4) == [0, 1, 2, 3]


def test_they_are_chosen_without_search_where_a_search_would_be_long(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = tied((10, 0), (10, 0), (10, 0))
    effort = 2  # of the dynamic program: one step for each component, of which as many may be used as slots are wanted
    monkeypatch.setattr(slot_combinations, "MAX_TIED_EFFORT", effort)
    assert best(parts, 2, steps=0) is None
    monkeypatch.setattr(slot_combinations, "MAX_TIED_EFFORT", effort - 1)
    assert best(parts, 2, steps=0) == [0, 1]


def test_single_slots_are_taken_from_the_cheapest_components() -> None:
    parts = [[option(1, weight, at)] for at, weight in enumerate((300, 100, 200, 100))]
    assert [best(parts, short) for short in (1, 2, 3, 4)] == [[1], [1, 3], [1, 2, 3], [0, 1, 2, 3]]


def test_too_many_different_weights_of_tied_slots_are_left_to_the_dynamic_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_combinations, "MAX_TIED_EFFORT", 0)
    parts = tied((10, 0), (11, 0), (13, 0), (17, 0), (1, 50))
    assert best(parts, 3, steps=0) is not None
    monkeypatch.setattr(slot_combinations, "MAX_LAYERS", 1)
    assert best(parts, 3, steps=0) is None
    assert best(parts, 3) == combinations(parts, 3)[0][2]


def test_a_combination_that_costs_more_than_the_budget_is_not_certain() -> None:
    parts = [[option(1, 300, 0), option(3, 400, 1)], [option(2, 300, 2)]]
    assert best(parts, 3, steps=2) == [1]
    assert best(parts, 3, steps=1) is None


def test_what_each_choice_of_a_component_weighs_at_least_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both components have a choice without excess, so one layer suffices."""
    monkeypatch.setattr(slot_combinations, "MAX_LAYERS", 1)
    choices: Any = [
        [(0, option(1, 20, 3 * at)), (1, option(2, 20, 3 * at, 3 * at + 1)), (2, option(3, 50, 3 * at, 3 * at + 1, 3 * at + 2))]
        for at in range(2)
    ]
    found = slot_combinations._lightest_of_tied(choices, 2, FRAGMENTATION)
    assert found is not None
    assert [each.key[0] for each in found] == [20, 20]


@pytest.mark.parametrize(("choices", "short", "steps"), [(1, 1, 1), (5, 9, 1), (5, 10, 2), (100, 50, 101)])
def test_the_dynamic_program_costs_steps_by_the_choices_of_a_component_and_the_slots(
    choices: int, short: int, steps: int
) -> None:
    assert slot_combinations._effort([(gain, None) for gain in range(choices)], short) == steps


def test_of_slots_of_equal_weight_the_one_with_the_youngest_job_is_gained() -> None:
    parts = [[option(1, 100, 10), option(2, 200, 10, 0, 9)], [option(1, 100, 11), option(2, 200, 11, 4, 5)]]
    assert best(parts, 3) == combinations(parts, 3)[0][2] == [0, 9, 10, 11]


def test_tied_slots_are_sought_up_to_small_weights_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the weight of one node there are two totals; up to the highest, there are many."""
    monkeypatch.setattr(slot_combinations, "MAX_LAYERS", 2)
    choices: Any = [[(0, None), (1, option(1, 10, 2 * at)), (2, option(2, 50, 2 * at, 2 * at + 1))] for at in range(3)]
    found = slot_combinations._lightest_of_tied(choices, 1, FRAGMENTATION)
    assert found is not None
    assert [each.key[0] for each in found] == [10]


def test_the_limit_of_tied_weights_is_doubled_until_a_set_is_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to 20 there are two totals; up to 30, five."""
    monkeypatch.setattr(slot_combinations, "MAX_LAYERS", 2)
    choices: Any = [[(0, None), (1, option(1, weight, at))] for at, weight in enumerate((25, 27, 29, 20))]
    found = slot_combinations._lightest_of_tied(choices, 1, FRAGMENTATION)
    assert found is not None
    assert [each.key[0] for each in found] == [20]


def test_no_eviction_weighs_nothing_beside_a_component_of_which_two_slots_weigh_as_much_as_one() -> None:
    choices: Any = [[(0, None), (1, option(1, 1, 5)), (2, option(2, 1, 5, 6))], [(0, None), (1, option(1, 1, 0))]]
    found = slot_combinations._lightest_of_tied(choices, 2, FRAGMENTATION)
    assert found is not None
    assert [each.gain for each in found] == [2]


def test_of_options_that_cost_the_same_above_fragmentation_the_one_that_breaks_fewer_nodes_is_taken() -> None:
    """Though it has a victim that is slow to leave."""
    breaks: Any = (Step((1, "j1", 0), uses=1),)
    slow: Any = (Step((2, "j2", 0)),)
    found = best_of([Option(1, (ABOVE, 1, ()), breaks), Option(1, (ABOVE + 1, 1, ()), slow)], FRAGMENTATION)
    assert [each.steps for each in found] == [slow]


def test_the_first_slot_of_a_component_costs_what_it_weighs() -> None:
    """The second slot of one component costs 100, the first of the other 101, of the youngest job."""
    assert best([[option(1, 101, 0)], [option(1, 50, 5), option(2, 150, 5, 6)]], 2) == [5, 6]


@pytest.mark.parametrize(
    ("parts", "short", "chosen"),
    [
        ([[option(1, 300, 0)], [option(1, 100, 1)], [option(1, 200, 2)]], 2, [1, 2]),
        ([[option(1, 100, 0), option(2, 250, 0, 1)], [option(1, 120, 2), option(2, 250, 2, 3)]], 3, [0, 2, 3]),
        ([[option(1, 100, 0), option(2, 290, 0, 1)], [option(1, 120, 2), option(2, 310, 2, 3)]], 3, [0, 1, 2]),  # ages
        ([[option(1, 100, 0, 1)], [option(1, 100, 2)], [option(1, 100, 3)]], 1, [2]),  # fewer victims
    ],
)
def test_where_each_further_slot_of_a_component_costs_no_less_the_cheapest_slots_are_taken_without_a_search(
    parts: list[list[Option]], short: int, chosen: list[int]
) -> None:
    assert best(parts, short, steps=0) == chosen == combinations(parts, short)[0][2]


@pytest.mark.parametrize(
    "second",
    [
        option(2, 150, 0, 1),  # the second slot costs less than the first
        option(2, 300, 1, 2),  # it is not gained by one more victim
        option(3, 300, 0, 1),
    ],
)
def test_otherwise_they_are_searched(second: Option) -> None:
    parts = [[option(1, 100, 0), second], [option(1, 120, 5), option(2, 260, 5, 6)]]
    assert best(parts, 3, steps=0) is None
    assert best(parts, 3) == combinations(parts, 3)[0][2]


# --- the cheapest victims for one more task on any node, and the next best without one of them


@pytest.fixture
def sketch() -> Sketch:
    """Two full nodes of two GPUs."""
    return Sketch(a=2, b=2)


def test_a_set_that_costs_more_than_one_that_gains_as_much_as_all_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The free CPUs are enough for one task. `x` has no GPU, so the set of `x` and `second` costs a reservation more."""
    monkeypatch.setattr(knapsack, "SETS_PER_STEP", 1)
    sketch = Sketch()
    sketch.node("a", gpus=2, cpu=1)
    for name, asked, devices in (("first", group(gpus=1), [0]), ("x", group(gib=1), []), ("second", group(gpus=1, gib=1), [1])):
        sketch.at(sketch.job(name, asked), ("a", devices), phase="reserved")
    snapshot = current_snapshot(sketch.state)
    index = CandidateIndex(snapshot)
    need = TaskRequirements.of(group(gpus=1, cpu=1))
    candidates = index.candidates("preempt", sketch.job("preemptor", group(gpus=1, cpu=1), priority=75))
    made = Knapsack(snapshot.cluster, need, candidates, index.fragmentation, single=True)
    budget = StepBudget(100)
    (part,) = made.parts
    found = made.options(part, budget)
    assert found is not None
    assert [[step.job.id for step in option.steps] for option in found] == [["second"]]
    assert budget.used == 3


# --- the cheapest victims for several more tasks: components are searched once, and again only without a job that runs there


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


# --- sets of steps in the order of their weight: every set of the first steps of at most so many jobs, once


class StepOfSetsByCost:
    """A step that is equal to itself only."""

    def __init__(self, job: int, at: int) -> None:
        self.job, self.at = job, at


@pytest.mark.parametrize("seed", range(40))
def test_sets_come_lightest_first_and_each_once(seed: int) -> None:
    random = Random(seed)
    chains = [[StepOfSetsByCost(job, at) for at in range(random.randint(1, 3))] for job in range(random.randint(0, 4))]
    weights: Any = {each: random.randint(0, 5) for chain in chains for each in chain}
    chains.sort(key=lambda chain: weights[chain[0]])
    most = random.randint(0, 5)
    sets: Any = _by_cost(chains, weights, most)  # type: ignore[arg-type]
    found = [(weight, tuple(sorted((each.job, each.at) for each in steps))) for weight, steps in sets]
    expected = []
    for counts in product(*(range(len(chain) + 1) for chain in chains)):
        steps = [each for chain, count in zip(chains, counts, strict=True) for each in chain[:count]]
        if 0 < len({each.job for each in steps}) <= most:
            expected.append((sum(weights[each] for each in steps), tuple(sorted((each.job, each.at) for each in steps))))
    assert sorted(found) == sorted(expected)
    assert [weight for weight, _ in found] == sorted(weight for weight, _ in found)


# --- weights of victim sets: integers that compare as the levels of the objective do, and the nodes that a set leaves in part


# --- fragmentation


@pytest.fixture
def shared_node() -> Sketch:
    """Node a: `one` and `two` have two GPUs each, the rest is free. Node b: `halves` shares a GPU with `other`."""
    sketch = Sketch(a=8, b=2)
    sketch.running("one", "a", [0, 1])
    sketch.running("two", "a", [2, 3])
    sketch.at(sketch.job("halves", group(2, gpu_share_milli=400)), ("b", [0]), ("b", [1]))
    sketch.at(sketch.job("other", group(gpu_share_bytes=10 * GIB)), ("b", [0]))
    sketch.at(sketch.job("cpus", group(cpu=4)), ("a", []))
    return sketch


def test_a_gang_releases_a_node_on_which_any_of_its_tasks_has_started(shared_node: Sketch) -> None:
    gang = shared_node.at(shared_node.job("gang", group(2, gpus=1)), ("a", [4]), ("a", [5]))
    for started in (0, 1):
        gang.tasks[started].state, gang.tasks[1 - started].state = "running", "reserved"
        (use,) = node_uses(shared_node.state, gang, gang.tasks)
        assert use == (0, 2, True)
    gang.tasks[0].state = gang.tasks[1].state = "reserved"
    assert node_uses(shared_node.state, gang, gang.tasks) == ((0, 2, False),)
