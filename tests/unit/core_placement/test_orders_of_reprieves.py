"""In which orders victims are reprieved for a first set and for the next best one, and what is evicted afterwards."""

from typing import Any

import pytest
from tests.builders import MINUTE, Sketch, group
from tests.unit.core_placement.tables import preemptor_of_another_project, two_full_nodes
from tests.unit.core_placement.test_general_search import search as search_for
from tests.unit.core_placement.test_general_search_parts import evicted, names, step, three_jobs
from tests.unit.core_placement.test_revalidate import policy

from bailiff_core.placement import StepBudget
from bailiff_core.placement.gang import NoFit
from bailiff_core.victims import search
from bailiff_core.victims.candidates import EvictionStep
from bailiff_core.victims.fit_oracle import PlacementOracle
from bailiff_core.victims.search import GeneralSearch, _LossConstraint
from bailiff_core.victims.set_weights import SetWeights

Steps = list[EvictionStep]


def of_three_projects() -> GeneralSearch:
    """`one` and `two` of project a, `small` of project c, `large` of project d; the preemptor reclaims for project b."""
    sketch = two_full_nodes()
    sketch.state.policy = policy(*({"name": name} for name in "acd"), {"name": "b", "quota": {"gpus": 8}})
    for name, project, gpus in (("small", "c", 1), ("large", "d", 8)):
        sketch.node(name, gpus=gpus)
        sketch.running(name, name, range(gpus)).project = project
    return search_for(sketch, preemptor_of_another_project(sketch), "reclaim")


@pytest.mark.parametrize("found", [1, 2, 3, 4, 5])
def test_for_a_first_set_one_project_after_the_other_keeps_its_jobs_and_then_the_largest_jobs_stay(
    monkeypatch: pytest.MonkeyPatch, found: int
) -> None:
    """Until one of these sets is permitted."""
    made = of_three_projects()
    order = [step(made, name) for name in ("small", "one", "large", "two")]
    orders: list[Any] = []

    def reprieve(_oracle: Any, given: Steps, _accept: Any) -> Steps:
        orders.append(names(given))
        return order[:1] if len(orders) == found else []

    monkeypatch.setattr(made, "_reprieve_all", reprieve)
    chains = [made.candidates.chains[name] for name in ("one", "small", "large", "two")]
    oracle: Any = None
    assert made._first(oracle, order, chains, lambda *_: True) == order[:1]
    assert (
        orders
        == [
            ["small", "one", "large", "two"],
            ["one", "two", "small", "large"],
            ["small", "one", "large", "two"],
            ["large", "small", "one", "two"],
            ["large", "one", "two", "small"],
        ][:found]
    )


class Keeps:
    """An oracle that lets these steps stay. again: those that are evicted once more."""

    def __init__(self, *kept: EvictionStep) -> None:
        self.kept, self.again = kept, Steps()

    def reprieve(self, each: EvictionStep) -> bool:
        return each in self.kept

    def evict(self, each: EvictionStep) -> None:
        self.again.append(each)


@pytest.mark.parametrize("permitted", [True, False])
def test_what_stayed_is_evicted_again_and_the_rest_is_the_set_if_it_is_permitted(permitted: bool) -> None:
    made = three_jobs()
    order = [step(made, name) for name in ("dear", "middle", "cheap")]
    oracle: Any = Keeps(order[1])
    found = made._reprieve_all(oracle, order, lambda *_: permitted)
    assert names(found) == (["dear", "cheap"] if permitted else [])
    assert names(oracle.again) == ["middle"]


@pytest.mark.parametrize(
    ("stays", "sought", "found", "again"),
    [(("dear", "middle"), [["cheap"]], ["cheap"], ["dear", "middle"]), (("dear",), [], [], ["dear"]), ((), [], [], [])],
)
def test_a_set_without_some_steps_is_sought_if_all_of_them_can_stay(
    monkeypatch: pytest.MonkeyPatch, stays: tuple[str, ...], sought: list[list[str]], found: list[str], again: list[str]
) -> None:
    made = three_jobs()
    order = [step(made, name) for name in ("dear", "cheap", "middle")]
    kept = [step(made, name) for name in ("dear", "middle")]
    oracle: Any = Keeps(*(step(made, name) for name in stays))
    given: list[Any] = []

    def reprieve(_oracle: Any, rest: Steps, _accept: Any) -> Steps:
        given.append(names(rest))
        return rest

    monkeypatch.setattr(made, "_reprieve_all", reprieve)
    assert names(made._runner_up_without(oracle, order, kept, lambda *_: True)) == found
    assert (given, names(oracle.again)) == (sought, again)


@pytest.mark.parametrize("slots", [True, False])
def test_the_next_best_set_is_sought_without_the_heaviest_victim_and_of_equal_tasks_without_the_second(
    monkeypatch: pytest.MonkeyPatch, slots: bool
) -> None:
    made = three_jobs()
    order = [step(made, name) for name in ("cheap", "dear", "middle")]
    oracle: Any = evicted(made) if slots else PlacementOracle(made.cluster, made.unit, StepBudget(100))
    weights = SetWeights.of_steps(order, made.fragmentation)
    kept: list[Any] = []
    others = iter([[step(made, "cheap")], []])

    def without(_oracle: Any, _order: Any, steps: Steps, _accept: Any) -> Steps:
        kept.append(names(steps))
        return next(others)

    monkeypatch.setattr(made, "_runner_up_without", without)
    found = made._runner_up(oracle, order, order, weights, lambda *_: True)
    assert kept == ([["dear"], ["middle"]] if slots else [["dear"]])
    assert names(found) == ["cheap"], "where nothing is found without the second, the first is named"


# --- a preemptor beside what is restored


@pytest.mark.parametrize(("gpus", "steps"), [(2, 7), (4, 0)])
def test_whether_a_victim_could_stay_is_asked_without_a_trace_and_charged(
    monkeypatch: pytest.MonkeyPatch, gpus: int, steps: int
) -> None:
    """Where counting shows that nothing fits, no place is sought."""
    sketch = Sketch()
    sketch.node("a", gpus=4)
    for name, devices in (("one", range(2)), ("two", range(2, 4))):
        sketch.running(name, "a", devices, age=MINUTE)
    made = search_for(sketch, sketch.job("preemptor", group(gpus=gpus), priority=75), "preempt")
    for each in made.candidates.steps():
        made.cluster.evict(each.unit)
    before = [(node.unallocated, node.future) for node in made.cluster.nodes.values()]

    def place(cluster: Any, _unit: Any, part: StepBudget, **_: Any) -> NoFit:
        cluster.close(cluster.nodes[0])
        part.charge(7)
        return NoFit("impossible", "")

    monkeypatch.setattr(search, "place_unit", place)
    budget = StepBudget(100)
    assert not made._fits_with_restored(step(made, "one").unit, budget)
    assert budget.used == steps
    assert [(node.unallocated, node.future) for node in made.cluster.nodes.values()] == before


def test_losses_are_taken_and_undone_with_the_victims() -> None:
    class Losses:
        def __init__(self) -> None:
            self.taken: list[Any] = []

        def take(self, unit: Any) -> bool:
            self.taken.append(unit)
            return len(self.taken) < 2

        def undo(self) -> None:
            self.taken.pop()

    losses: Any = Losses()
    constraint, made = _LossConstraint(losses), three_jobs()
    assert [constraint.push(step(made, name)) for name in ("dear", "cheap")] == [True, False]
    constraint.pop()
    assert [unit.job.id for unit in losses.taken] == ["dear"]
