"""How many of the steps that are left each part of a victim search may use; what it used is charged."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.builders import MINUTE, Sketch, group, requested_unit
from tests.unit.core_placement.test_general_search import search as search_for

from bailiff_core.placement import StepBudget
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, consolidation, search, select_victims, shortlist, solve
from bailiff_core.victims.knapsack import Knapsack
from bailiff_core.victims.search import GeneralSearch
from bailiff_core.victims.solver_interface import Problem

STEPS = 101


class Parts:
    """Notes the steps that are granted. Each use takes one."""

    def __init__(self) -> None:
        self.granted: list[int] = []

    def use(self, part: StepBudget) -> None:
        self.granted.append(part.remaining)
        part.spend()


@pytest.fixture
def parts() -> Parts:
    return Parts()


@pytest.fixture
def made() -> GeneralSearch:
    sketch = Sketch()
    for node, name, age in (("a", "dear", 9 * MINUTE), ("b", "cheap", MINUTE)):
        sketch.node(node, gpus=2)
        sketch.running(name, node, range(2), age=age)
    found = search_for(sketch, sketch.job("preemptor", group(gpus=2), priority=75), "preempt")
    found.budget = StepBudget(STEPS)
    return found


def watch_knapsacks(monkeypatch: pytest.MonkeyPatch, parts: Parts) -> None:
    cheapest = Knapsack.cheapest

    def noted(self: Knapsack, short: int, part: StepBudget, without: Any = None) -> Any:
        found = cheapest(self, short, part, without)
        parts.use(part)
        return found

    monkeypatch.setattr(Knapsack, "cheapest", noted)


def test_a_kind_of_tasks_may_use_half_and_each_next_best_set_a_quarter_of_the_rest(
    monkeypatch: pytest.MonkeyPatch, parts: Parts, made: GeneralSearch
) -> None:
    watch_knapsacks(monkeypatch, parts)
    assert made._relaxed() is not None
    assert parts.granted == [50, 25]
    assert made.budget.used == 2


def test_branch_and_bound_may_use_three_quarters_and_is_charged(
    monkeypatch: pytest.MonkeyPatch, parts: Parts, made: GeneralSearch
) -> None:
    def search_all(_oracle: Any, _order: Any, _weights: Any, _limit: Any, part: StepBudget, **_: Any) -> tuple[None, bool]:
        parts.use(part)
        return None, True

    monkeypatch.setattr(search, "branch_and_bound", search_all)
    assert made._search_among(list(made.candidates.chains.values()), with_relocations=False).victims is not None
    assert (parts.granted, made.budget.used) == ([75], 1)


@pytest.mark.parametrize(("left", "granted"), [(10 * search.PLACEMENT_STEPS, search.PLACEMENT_STEPS), (STEPS, STEPS)])
def test_whether_a_set_is_enough_is_asked_with_the_steps_of_a_placement(
    monkeypatch: pytest.MonkeyPatch, parts: Parts, made: GeneralSearch, left: int, granted: int
) -> None:
    made.budget = StepBudget(left)
    monkeypatch.setattr(made.constraints, "place", parts.use)
    assert not made._fits_without([])
    assert (parts.granted, made.budget.used) == ([granted], 1)


@pytest.mark.parametrize(
    ("left", "granted"), [(STEPS, [25, 25]), (100, [25, 24]), (8 * search.RELOCATION_STEPS, [search.RELOCATION_STEPS] * 2)]
)
def test_whether_a_victim_could_move_is_asked_with_a_quarter_of_the_rest_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch, parts: Parts, made: GeneralSearch, left: int, granted: list[int]
) -> None:
    budget = StepBudget(left)
    monkeypatch.setattr(search, "place_jointly", lambda _cluster, _units, part: parts.use(part))
    made._never_acceptable(made.candidates.steps(), budget)
    assert (parts.granted, budget.used) == (granted, 2)


def problem(sketch: Sketch, preemptor: Any, action: Any) -> Problem:
    snapshot, unit = current_snapshot(sketch.state), requested_unit(preemptor)
    batch = SelectionBatch.on(snapshot)
    constraints: Any = SimpleNamespace(constrains_placement=False)
    return Problem(snapshot, batch.index, unit, action, constraints, {}, StepBudget(STEPS), batch.knapsacks)


@pytest.mark.parametrize(("steps", "granted"), [(STEPS, 25), (10**6, consolidation.JOINT_PLACEMENT_STEPS)])
def test_a_joint_placement_may_use_a_quarter_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch, parts: Parts, steps: int, granted: int
) -> None:
    def nowhere(_cluster: Any, _units: Any, part: StepBudget) -> str:
        parts.use(part)
        return "impossible"

    monkeypatch.setattr(consolidation, "place_jointly", nowhere)
    sketch = Sketch()
    sketch.node("a")
    asked = problem(sketch, sketch.job("asks", group(gpus=1)), "consolidate")
    asked.budget.remaining = steps
    made = consolidation._RelocationSearch(asked)
    assert made._jointly([]) is None
    assert (made.certain, parts.granted, asked.budget.used) == (True, [granted], 1)


def test_on_large_pools_a_shortlist_may_use_half_and_its_next_best_set_a_quarter_of_the_rest(
    monkeypatch: pytest.MonkeyPatch, parts: Parts
) -> None:
    monkeypatch.setattr(shortlist, "MIN_ACTIVE_JOBS", 0)
    sketch = Sketch()
    for name, age in (("a", 9 * MINUTE), ("b", MINUTE)):
        sketch.node(name, gpus=2)
        sketch.running(f"on-{name}", name, range(2), age=age)
    watch_knapsacks(monkeypatch, parts)
    snapshot = current_snapshot(sketch.state)
    unit = requested_unit(sketch.job("asks", group(gpus=2), priority=75))
    budget = StepBudget(STEPS)
    answer = select_victims(SelectionBatch.on(snapshot), unit, "preempt", budget)
    assert ([choice.job for choice in answer.victims], answer.explanation.runner_up) == (["on-b"], ("on-a",))
    assert (parts.granted, budget.used) == ([50, 25], 2)


def test_whether_it_fits_without_victims_is_asked_with_a_quarter(monkeypatch: pytest.MonkeyPatch, parts: Parts) -> None:
    def beyond_a_limit(_snapshot: Any, _unit: Any, part: StepBudget) -> str:
        parts.use(part)
        return "beyond a limit"

    monkeypatch.setattr(solve, "place_within_bounds", beyond_a_limit)
    sketch = Sketch()
    sketch.node("a")
    unit = requested_unit(sketch.job("asks", group(gpus=1)))
    budget = StepBudget(STEPS)
    select_victims(SelectionBatch.on(current_snapshot(sketch.state)), unit, "preempt", budget)
    assert (parts.granted, budget.used >= 1) == ([25], True)


def test_a_kind_of_tasks_that_lacks_no_slot_costs_no_steps(
    monkeypatch: pytest.MonkeyPatch, parts: Parts, made: GeneralSearch
) -> None:
    watch_knapsacks(monkeypatch, parts)
    slots = SimpleNamespace(cheapest=lambda *_: parts.use(StepBudget(1)))
    monkeypatch.setattr(search, "knapsack_for", lambda *_: (slots, 0))
    assert made._relaxed() is None
    assert parts.granted == []
