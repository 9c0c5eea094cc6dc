"""Parts of the general search: what it may call proven, which sets it prefers, and how it improves what is not proven."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.builders import MINUTE, Sketch, group
from tests.unit.core_placement.tables import preemptor_of_another_project, two_full_nodes
from tests.unit.core_placement.test_general_search import search as search_for
from tests.unit.core_placement.test_revalidate import policy

from bailiff_core.placement import StepBudget
from bailiff_core.placement.gang import GangPlacement, NoFit
from bailiff_core.victims import search
from bailiff_core.victims.candidates import EvictionStep
from bailiff_core.victims.fit_oracle import SlotOracle
from bailiff_core.victims.search import GeneralSearch, GeneralSolver, _has_unneeded_victim
from bailiff_core.victims.solver_interface import Solution

Steps = list[EvictionStep]


def three_jobs(action: Any = "preempt") -> GeneralSearch:
    """`cheap`, `middle` and `dear` fill a node of two GPUs each; the preemptor needs one node."""
    sketch = Sketch()
    for node, name, age in (("a", "dear", 50 * MINUTE), ("b", "middle", 20 * MINUTE), ("c", "cheap", MINUTE)):
        sketch.node(node, gpus=2)
        sketch.running(name, node, range(2), age=age)
    return search_for(sketch, sketch.job("preemptor", group(gpus=2), priority=75), action)


def step(made: GeneralSearch, name: str) -> EvictionStep:
    return made.candidates.chains[name][0]


def names(steps: Sequence[EvictionStep] | None) -> list[str] | None:
    return None if steps is None else [each.job.id for each in steps]


def evicted(made: GeneralSearch) -> SlotOracle:
    """The oracle with all candidates evicted."""
    for each in made.candidates.steps():
        made.cluster.evict(each.unit)
    assert made._simple is not None
    return SlotOracle(made.cluster, *made._simple)


def test_relocation_alone_is_not_its_business() -> None:
    made = three_jobs()
    problem: Any = type("Problem", (), {"action": "consolidate", "candidates": made.candidates})
    assert GeneralSolver().solve(problem) is None


# --- each kind of tasks on its own


class Slots:
    """Stands for the knapsack of one kind of tasks. cheapest: what it finds, by the step that must stay."""

    def __init__(self, found: Callable[[EvictionStep | None], tuple[Steps | None, bool]]) -> None:
        self._found = found

    def cheapest(self, _short: int, _part: StepBudget, without: EvictionStep | None = None) -> tuple[Steps | None, bool]:
        return self._found(without)


@pytest.mark.parametrize("sure", [True, False])
def test_the_bound_of_one_kind_of_tasks_is_no_proof_where_another_kind_is_not_certain(
    monkeypatch: pytest.MonkeyPatch, sure: bool
) -> None:
    made = three_jobs()
    made.needs, made._simple = {"x": (0,), "y": (1,)}, None  # type: ignore[dict-item]
    first = Slots(lambda _: ([step(made, "cheap")], True) if sure else (None, False))
    second = Slots(lambda _: ([step(made, "middle")], True))
    needs = iter((first, second))
    monkeypatch.setattr(search, "knapsack_for", lambda *_: (next(needs), 1))
    monkeypatch.setattr(made, "_fits_without", lambda _steps: True)
    found = made._relaxed()
    assert names(made.bound) == ["middle"]
    assert (found is not None and found.proven) is sure


@pytest.mark.parametrize("first", ["cheap", "dear"])
def test_the_next_best_set_is_the_cheapest_of_those_that_keep_a_victim(first: str) -> None:
    made = three_jobs()
    made.bound = [step(made, "dear"), step(made, "middle")]
    second = {"cheap": "dear", "dear": "cheap"}[first]
    others = {"dear": first, "middle": second}
    slots: Any = Slots(lambda without: ([step(made, others[without.job.id])], True) if without else (None, True))
    assert names(made._knapsack_runner_up(slots, 1)) == ["cheap"]


def test_next_best_sets_do_without_one_of_the_heaviest_victims() -> None:
    made = three_jobs()
    made.bound = [step(made, name) for name in ("cheap", "dear", "middle")]
    left_out: list[Any] = []

    def nothing(without: EvictionStep | None) -> tuple[None, bool]:
        left_out.append(without)
        return None, True

    slots: Any = Slots(nothing)
    assert made._knapsack_runner_up(slots, 1) == []
    assert names(left_out) == ["dear", "middle"]


@pytest.mark.parametrize(("groups", "next_best"), [((group(gpus=2),), ["middle"]), ((group(cpu=1), group(gpus=2)), [])])
def test_the_next_best_set_of_one_kind_of_tasks_is_not_claimed_to_be_one_of_several_kinds(
    groups: Any, next_best: list[str]
) -> None:
    sketch = Sketch()
    for node, name, age in (("b", "middle", 5 * MINUTE), ("c", "cheap", MINUTE)):
        sketch.node(node, gpus=2)
        sketch.running(name, node, range(2), age=age)
    found = search_for(sketch, sketch.job("preemptor", *groups, priority=75), "preempt")._relaxed()
    assert found is not None
    assert (names(found.victims), names(found.runner_up)) == (["cheap"], next_best)


# --- with and without new places


@pytest.mark.parametrize(
    ("without", "relocating", "why", "proven"),
    [
        (True, True, "without", True),
        (True, False, "relocating", False),  # with new places something might fit
        (False, True, "without", False),
        (False, False, "without", False),
    ],
)
def test_that_nothing_fits_is_proven_only_if_it_is_with_and_without_new_places(
    monkeypatch: pytest.MonkeyPatch, without: bool, relocating: bool, why: str, proven: bool
) -> None:
    sketch = two_full_nodes()
    sketch.state.policy = policy({"name": "a"}, {"name": "b", "quota": {"gpus": 8}})
    made = search_for(sketch, preemptor_of_another_project(sketch), "reclaim")
    found = {
        False: Solution(made.candidates, proven=without, why="without"),
        True: Solution(made.candidates, proven=relocating, why="relocating"),
    }

    def search_among(_chains: Any, *, with_relocations: bool) -> Solution:
        return found[with_relocations]

    monkeypatch.setattr(made, "_relaxed", lambda: None)
    monkeypatch.setattr(made, "_search_among", search_among)
    solution = made.run()
    assert (solution.why, solution.proven) == (why, proven)


# --- the search itself


@pytest.mark.parametrize("exact", [True, False])
def test_that_nothing_fits_with_all_evicted_is_proven_if_the_placement_search_is_certain(exact: bool) -> None:
    oracle: Any = type("Oracle", (), {"exact": exact, "fits": lambda _self: False})()
    found = three_jobs()._best(oracle, [], with_relocations=False)
    assert (found.victims, found.proven) == (None, exact)
    assert ("within the step budget" in found.why) is not exact


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("certain", [True, False])
def test_a_set_is_proven_if_every_part_of_the_search_is_certain(
    monkeypatch: pytest.MonkeyPatch, finished: bool, exact: bool, certain: bool
) -> None:
    made = three_jobs()
    oracle = evicted(made)
    oracle.exact = exact  # type: ignore[misc]

    def search_all(*_: Any, **__: Any) -> tuple[None, bool]:
        made._certain = certain
        return None, finished

    monkeypatch.setattr(search, "branch_and_bound", search_all)
    found = made._best(oracle, list(made.candidates.chains.values()), with_relocations=False)
    assert (names(found.victims), found.proven) == (["cheap"], finished and exact and certain)


@pytest.mark.parametrize("steps", [0, 1000])
def test_a_job_on_nodes_that_may_be_used_and_others_is_a_candidate_with_all_its_steps(
    monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Its surplus task goes first, though that frees nothing for the preemptor. The job on c costs more than both."""
    sketch = Sketch()
    for name in ("a", "b", "c"):
        sketch.node(name, gpus=2)
    wide = sketch.at(sketch.job("wide", group(2, gpus=2), priority=10), ("a", range(2)), ("b", range(2)))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    sketch.running("dear", "c", range(2))
    made = search_for(sketch, sketch.job("preemptor", group(gpus=2, nodes=("a", "c")), priority=75), "preempt")
    monkeypatch.setattr(search, "IMPROVEMENTS", 0)
    made.budget = StepBudget(steps)
    chains = list(made.candidates.chains.values())
    assert [each.unit.indices for each in chains[0]] == [(1,), (0,)]
    found = made._search_among(chains, with_relocations=False)
    assert found.victims is not None
    assert sorted((each.job.id, each.unit.indices) for each in found.victims) == [("wide", (0,)), ("wide", (1,))]


def test_a_job_on_nodes_that_may_not_be_used_is_kept() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.node("b", gpus=2)
    sketch.running("here", "a", range(2))
    sketch.running("there", "b", range(2), priority=10)
    made = search_for(sketch, sketch.job("preemptor", group(gpus=2, nodes=("a",)), priority=75), "preempt")
    found = made._search_among(list(made.candidates.chains.values()), with_relocations=False)
    assert (names(found.victims), found.proven) == (["here"], True)


def test_a_victim_that_an_incomplete_search_does_not_need_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made = three_jobs()
    oracle = evicted(made)
    better = [step(made, "middle"), step(made, "cheap")]
    monkeypatch.setattr(search, "branch_and_bound", lambda *_, **__: (better, False))
    monkeypatch.setattr(search, "IMPROVEMENTS", 0)
    found = made._best(oracle, list(made.candidates.chains.values()), with_relocations=False)
    assert names(found.victims) == ["cheap"]


def test_a_set_that_cannot_be_reduced_to_a_permitted_one_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    made = three_jobs()
    oracle = evicted(made)
    better = [step(made, "middle"), step(made, "cheap")]
    monkeypatch.setattr(search, "branch_and_bound", lambda *_, **__: (better, False))
    monkeypatch.setattr(made, "_reprieve_all", lambda *_: [])
    found = made._best(oracle, list(made.candidates.chains.values()), with_relocations=False)
    assert names(found.victims) == ["middle", "cheap"]


def improve(monkeypatch: pytest.MonkeyPatch, *next_best: str, finished: bool = False) -> Solution:
    """The result where the search finds `dear`, and these are the next best sets of it and of those that replace it."""
    made = three_jobs()
    oracle = evicted(made)
    found = iter([[step(made, name)] if name else [] for name in next_best])
    monkeypatch.setattr(search, "branch_and_bound", lambda *_, **__: (None, finished))
    monkeypatch.setattr(made, "_first", lambda *_: [step(made, "dear")])
    monkeypatch.setattr(made, "_runner_up", lambda *_: next(found))
    return made._best(oracle, list(made.candidates.chains.values()), with_relocations=False)


@pytest.mark.parametrize(
    ("next_best", "victims", "runner_up"),
    [
        (["middle", "cheap", ""], ["cheap"], ["middle"]),  # each lighter set is improved in its turn
        (["middle", ""], ["middle"], ["dear"]),  # without another, the set that it replaced is the next best
        (["cheap", "middle"], ["cheap"], ["middle"]),
        ([""], ["dear"], []),
    ],
)
def test_a_set_that_is_not_proven_is_replaced_by_a_lighter_next_best(
    monkeypatch: pytest.MonkeyPatch, next_best: list[str], victims: list[str], runner_up: list[str]
) -> None:
    found = improve(monkeypatch, *next_best)
    assert (names(found.victims), names(found.runner_up)) == (victims, runner_up)


def test_a_proven_set_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    found = improve(monkeypatch, "cheap", "middle", finished=True)
    assert (names(found.victims), names(found.runner_up), found.proven) == (["dear"], ["cheap"], True)


@pytest.mark.parametrize(
    ("action", "permitted", "several"), [("preempt", False, False), ("reclaim", False, True), ("reclaim", True, False)]
)
def test_other_orders_are_tried_only_where_the_constraints_do_not_permit_the_first_set(
    monkeypatch: pytest.MonkeyPatch, action: Any, permitted: bool, several: bool
) -> None:
    sketch = two_full_nodes()
    if action == "reclaim":
        sketch.state.policy = policy({"name": "a"}, {"name": "b", "quota": {"gpus": 8}})
    made = search_for(sketch, preemptor_of_another_project(sketch), action)
    oracle, tried = evicted(made), []
    first = [step(made, "one")] if permitted else []

    def reprieve(*_: Any) -> Steps:
        tried.append(1)
        return first

    monkeypatch.setattr(made, "_reprieve_all", reprieve)
    chains = list(made.candidates.chains.values())
    assert made._first(oracle, [each for chain in chains for each in chain], chains, lambda *_: permitted) == first
    assert (len(tried) > 1) is several


def test_without_its_core_an_elastic_job_may_still_lose_its_surplus(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next best set spares the heaviest victim, here the core of the job, and what is evicted after it."""
    sketch = Sketch()
    sketch.node("a", gpus=4)
    wide = sketch.at(sketch.job("wide", group(3, gpus=1)), ("a", [0]), ("a", [1]), ("a", [2]))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 2})
    sketch.running("other", "a", [3], age=MINUTE)
    made = search_for(sketch, sketch.job("preemptor", group(gpus=4), priority=75), "preempt")
    surplus, core = made.candidates.chains["wide"]
    oracle, kept = evicted(made), []
    order = [core, surplus, step(made, "other")]
    weights = search.SetWeights.of_steps(order, made.fragmentation)
    monkeypatch.setattr(search, "RUNNER_UP_TRIES", 1)
    monkeypatch.setattr(made, "_runner_up_without", lambda _oracle, _order, steps, _accept: kept.append(steps))
    made._runner_up(oracle, order, order, weights, lambda *_: True)
    assert kept == [[core]]


@pytest.mark.parametrize("first", ["cheap", "dear"])
def test_of_two_sets_that_keep_a_victim_the_lighter_is_the_next_best(monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    made = three_jobs()
    oracle = evicted(made)
    order = [step(made, name) for name in ("dear", "middle", "cheap")]
    weights: Any = search.SetWeights.of_steps(order, made.fragmentation)
    others = iter((first, {"cheap": "dear", "dear": "cheap"}[first]))
    monkeypatch.setattr(made, "_runner_up_without", lambda *_: [step(made, next(others))])
    assert names(made._runner_up(oracle, order, order[:2], weights, lambda *_: True)) == ["cheap"]


def test_after_a_step_that_is_not_permitted_no_later_step_of_the_job_is(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=3)
    wide = sketch.at(sketch.job("wide", group(3, gpus=1)), *(("a", [number]) for number in range(3)))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    made = search_for(sketch, sketch.job("preemptor", group(gpus=3), priority=75), "preempt")
    monkeypatch.setattr(made.constraints, "allows", lambda units: all(unit.indices != (1,) for unit in units))
    assert [[each.unit.indices for each in chain] for chain in made._permitted()] == [[(2,)]]


def test_units_of_a_job_are_tested_in_the_order_of_their_eviction() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=3)
    wide = sketch.at(sketch.job("wide", group(3, gpus=1)), *(("a", [number]) for number in range(3)))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    made = search_for(sketch, sketch.job("preemptor", group(gpus=3), priority=75), "preempt")
    steps = made.candidates.chains["wide"]
    for given in (steps, steps[::-1]):
        assert [unit.indices for unit in made._units(given)] == [(2,), (1,), (0,)]


def test_where_one_step_cannot_be_kept_the_others_of_its_job_are_not_tried() -> None:
    made = three_jobs()
    tried: list[EvictionStep] = []
    oracle: Any = type("Oracle", (), {"reprieve": lambda _self, each: tried.append(each), "evict": lambda *_: None})()
    steps = [step(made, "dear"), step(made, "cheap")]
    assert made._runner_up_without(oracle, steps, steps, lambda *_: True) == []
    assert tried == steps[:1]


# --- the final test of a set whose victims may be relocated


@pytest.mark.parametrize("fits", [True, False])
def test_new_places_are_sought_beside_a_placed_preemptor_and_their_steps_are_charged(
    monkeypatch: pytest.MonkeyPatch, fits: bool
) -> None:
    made = three_jobs()
    sought = []

    def place(_cluster: Any, _unit: Any, budget: StepBudget, **_: Any) -> GangPlacement | NoFit:
        budget.charge(30)
        return GangPlacement((), future=True) if fits else NoFit("gave-up", "within the step budget")

    def relocate(_cluster: Any, steps: Any, budget: StepBudget) -> dict[str, GangPlacement]:
        sought.append(names(steps))
        budget.charge(5)
        return {}

    monkeypatch.setattr(search, "place_unit", place)
    monkeypatch.setattr(search, "find_relocations", relocate)
    monkeypatch.setattr(made, "_fits_with_restored", lambda *_: False)
    budget = StepBudget(100)
    assert made._acceptable([step(made, "middle"), step(made, "cheap")], budget, with_relocations=True)
    assert sought == ([["middle", "cheap"]] if fits else [])
    assert budget.used == (37 if fits else 32)


@pytest.mark.parametrize(
    ("unneeded", "accepted"), [([], True), (["middle"], False), (["cheap"], False), (["middle", "cheap"], False)]
)
def test_with_new_places_no_victim_may_be_unneeded(monkeypatch: pytest.MonkeyPatch, unneeded: list[str], accepted: bool) -> None:
    made = three_jobs()
    monkeypatch.setattr(made, "_fits_with_restored", lambda unit, _budget: unit.job.id in unneeded)
    steps = [step(made, "middle"), step(made, "cheap")]
    assert made._acceptable(steps, StepBudget(100), with_relocations=True) is accepted


def test_looking_for_an_unneeded_victim_leaves_all_of_them_evicted() -> None:
    made = three_jobs()
    oracle = evicted(made)
    slots = dict(oracle.slots)
    assert _has_unneeded_victim(oracle, [step(made, "middle"), step(made, "cheap")])
    assert (oracle.slots, oracle.total) == (slots, 3)
