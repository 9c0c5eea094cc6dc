"""The cheapest victims for one more task on any node, and the next best without one of them."""

import pytest
from tests.builders import HOUR, MINUTE, Sketch, group

from bailiff_core.placement import StepBudget
from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import knapsack
from bailiff_core.victims.candidates import CandidateIndex
from bailiff_core.victims.knapsack import Knapsack


class Search:
    """The search for one more task of two GPUs, in this pool."""

    def __init__(self, sketch: Sketch) -> None:
        snapshot = current_snapshot(sketch.state)
        index = CandidateIndex(snapshot)
        candidates = index.candidates("preempt", sketch.job("preemptor", group(gpus=2), priority=75))
        self.step = {name: chain[0] for name, chain in candidates.chains.items()}
        need = TaskRequirements.of(group(gpus=2))
        self.knapsack = Knapsack(snapshot.cluster, need, candidates, index.fragmentation, single=True)

    def cheapest(self, steps: int = 1000, without: str | None = None) -> tuple[list[str] | None, bool]:
        found, certain = self.knapsack.cheapest(1, StepBudget(steps), self.step[without] if without else None)
        return None if found is None else [step.job.id for step in found], certain


@pytest.fixture
def sketch() -> Sketch:
    """Two full nodes of two GPUs."""
    made = Sketch()
    made.node("a", gpus=2)
    made.node("b", gpus=2)
    return made


def test_the_cheapest_node_is_taken_and_without_its_job_the_next(sketch: Sketch) -> None:
    sketch.running("cheap", "b", range(2), age=MINUTE)
    sketch.running("dear", "a", range(2), age=HOUR)
    search = Search(sketch)
    for _ in range(2):
        assert search.cheapest() == (["cheap"], True)
        assert search.cheapest(without="cheap") == (["dear"], True)
        assert search.cheapest(without="dear") == (["cheap"], True)


def test_there_is_no_next_best_where_the_node_of_the_kept_job_has_too_many_sets(
    sketch: Sketch, monkeypatch: pytest.MonkeyPatch
) -> None:
    sketch.running("cheap", "b", range(2), age=MINUTE)
    sketch.running("dear", "a", range(2), age=HOUR)
    sketch.at(sketch.job("gang", group(2, cpu=1), priority=10), ("a", []), ("b", []))
    search = Search(sketch)
    assert search.cheapest() == (["cheap"], True)
    with monkeypatch.context() as few:
        few.setattr(knapsack, "MAX_SETS_PER_COMPONENT", 0)
        assert search.cheapest(without="cheap")[0] is None
    assert search.cheapest() == (["cheap"], True)


@pytest.mark.parametrize("cheaper", ["a", "b"])
def test_without_a_gang_on_both_nodes_the_cheaper_of_the_others_goes(cheaper: str) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=4)
    sketch.node("b", gpus=4)
    sketch.at(sketch.job("gang", group(2, gpus=2), priority=10), ("a", range(2)), ("b", range(2)))
    for node in ("a", "b"):
        sketch.running(f"on-{node}", node, range(2, 4), age=MINUTE if node == cheaper else HOUR)
    search = Search(sketch)
    assert [len(part.nodes) for part in search.knapsack.parts] == [1, 1]
    assert search.cheapest() == (["gang"], True)
    assert search.cheapest(without="gang") == ([f"on-{cheaper}"], True)


def test_a_node_with_too_many_sets_leaves_the_result_open_and_the_others_as_they_are(
    sketch: Sketch, monkeypatch: pytest.MonkeyPatch
) -> None:
    sketch.running("cheap", "a", range(2), age=MINUTE)
    for device in range(2):
        sketch.running(f"small-{device}", "b", [device], age=HOUR)
    monkeypatch.setattr(knapsack, "MAX_SETS_PER_COMPONENT", 1)
    search = Search(sketch)
    for _ in range(2):
        assert search.cheapest() == (["cheap"], True)
        assert search.cheapest(without="cheap") == (None, False)


def test_no_next_best_is_named_where_a_better_one_may_exist() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=4)
    sketch.node("b", gpus=2)
    sketch.running("cheap", "a", range(2), age=MINUTE)
    sketch.running("next", "a", range(2, 4), age=2 * MINUTE)
    sketch.running("dear", "b", range(2), age=HOUR)
    search = Search(sketch)
    assert search.cheapest() == (["cheap"], True)
    assert search.cheapest(without="cheap") == (["next"], True)
    assert search.cheapest(without="cheap", steps=0)[0] is None, "to search node a without it takes a step"


def test_a_pool_without_victims_has_none() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.running("fixed", "a", range(2), preemptible=False)
    assert Search(sketch).cheapest() == (None, True)


def test_a_node_that_must_cost_more_than_the_cheapest_is_not_searched(sketch: Sketch) -> None:
    """Two jobs of one GPU each must go from `a`: together they cost more than the job on `b`, each of them less."""
    for device in range(2):
        sketch.running(f"small-{device}", "a", [device], age=HOUR)
    sketch.running("wide", "b", range(2), age=MINUTE)
    search = Search(sketch)
    assert search.cheapest() == (["wide"], True)
    searched = {part.nodes[0].name: part.known for part in search.knapsack.parts}
    assert searched == {"a": False, "b": True}
    assert search.cheapest(without="wide") == (["small-1", "small-0"], True)


@pytest.mark.parametrize(("used", "missing"), [(0, 1), (1, 2), (2, 3), (3, 1), (5, 3), (6, 1), (8, 3)])
def test_a_node_costs_at_least_as_many_of_its_cheapest_jobs_as_gpus_are_missing(used: int, missing: int) -> None:
    """Eight of its GPUs are free but for `used`, and each of four jobs has another one. A task needs three."""
    sketch = Sketch()
    sketch.node("a", gpus=12)
    if used:
        sketch.running("firm", "a", range(used), preemptible=False)
    for number in range(4):
        sketch.running(f"j{number}", "a", [8 + number], age=(4 - number) * MINUTE)
    snapshot = current_snapshot(sketch.state)
    index = CandidateIndex(snapshot)
    found = index.candidates("preempt", sketch.job("preemptor", group(gpus=3), priority=75))
    need = TaskRequirements.of(group(gpus=3))
    made = Knapsack(snapshot.cluster, need, found, index.fragmentation, single=True)
    weights = sorted(step.weight for step in found.steps())
    assert made._bound(made.parts[0]) == sum(weights[:missing])


def test_the_options_of_a_node_are_searched_once() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=6)
    for number in range(5):
        sketch.at(sketch.job(f"j{number}", group(gpus=1, cpu=1 + number)), ("a", [number]))
    search, budget = Search(sketch), StepBudget(100)
    (part,) = search.knapsack.parts
    options = search.knapsack.options(part, budget)
    assert options
    assert budget.used > 0
    used = budget.used
    assert search.knapsack.options(part, budget) is options
    assert budget.used == used


def test_without_a_job_only_the_nodes_of_that_job_are_searched_again() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.node("b", gpus=6)
    sketch.running("cheap", "a", range(2), age=MINUTE)
    for number in range(6):
        sketch.at(sketch.job(f"j{number}", group(gpus=1, cpu=1 + number)), ("b", [number]), age=HOUR)
    search = Search(sketch)
    found = search.cheapest(without="cheap")
    assert found[0] is not None
    assert search.cheapest(without="cheap", steps=0) == found


def test_a_set_that_costs_more_than_one_that_gains_as_much_as_all_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The free CPUs are enough for one task. `x` has no GPU, so the set of `x` and `second` costs a reservation more."""
    monkeypatch.setattr(knapsack, "SETS_PER_STEP", 1)
    sketch = Sketch()
    sketch.node("a", gpus=2, cpu=1)
    for name, asked, devices in (
        ("first", group(gpus=1), [0]), ("x", group(gib=1), []), ("second", group(gpus=1, gib=1), [1]),
    ):  # fmt: skip
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


def bound_of_first_node(sketch: Sketch) -> tuple[int | None, dict[str, int]]:
    """The least that a task of two GPUs costs on it, and the weight of each job."""
    search = Search(sketch)
    part = next(part for part in search.knapsack.parts if part.nodes[0].name == "a")
    return search.knapsack._bound(part), {name: step.weight for name, step in search.step.items()}


def test_what_a_gang_frees_on_other_nodes_does_not_count() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.node("b", gpus=4)
    sketch.at(sketch.job("gang", group(gpus=1), group(gpus=4), priority=10), ("a", [0]), ("b", range(4)))
    sketch.running("alone", "a", [1])
    bound, weights = bound_of_first_node(sketch)
    assert bound == weights["gang"] + weights["alone"]


def test_a_job_that_shares_two_gpus_may_free_both() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.at(sketch.job("halves", group(2, gpu_share_milli=500)), ("a", [0]), ("a", [1]))
    sketch.at(sketch.job("dear", group(gpu_share_milli=100), priority=60), ("a", [0]))
    bound, weights = bound_of_first_node(sketch)
    assert bound == weights["halves"] < weights["dear"]


def test_a_node_without_victims_cannot_gain_a_slot() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.running("firm", "a", range(2), preemptible=False)
    assert bound_of_first_node(sketch) == (None, {})
