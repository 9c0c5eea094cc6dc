"""Parts of consolidate: which sets of jobs are tried, when the best is proven, and what the search for new places may claim."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.builders import Sketch, group, requested_unit
from tests.unit.core_placement.tables import AT_MOST_ONE_WEB
from tests.unit.core_placement.test_revalidate import policy

from bailiff_core.model.proposal import Proposal
from bailiff_core.placement import StepBudget
from bailiff_core.placement.gang import GangPlacement, NoFit
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, consolidation, select_victims
from bailiff_core.victims.candidates import Candidates
from bailiff_core.victims.consolidation import _consolidate, _RelocationSearch
from bailiff_core.victims.constraints import Constraints
from bailiff_core.victims.solver_interface import Problem

PLACE: Any = object()


class Job:
    """A job that is moved as a whole."""

    def __init__(self, name: str) -> None:
        self.id = name


class Step:
    """A step of this weight. uses: the nodes that it breaks."""

    def __init__(self, name: str, weight: int, uses: int) -> None:
        self.job, self.weight, self.uses = Job(name), weight, uses
        self.age_key = (-ord(name), name, 0)


class Fragmentation:
    """Each broken node weighs one."""

    per_node = 1

    @staticmethod
    def count(uses: Sequence[int]) -> int:
        return sum(uses)


def names(steps: Sequence[Any]) -> str:
    return "".join(step.job.id for step in steps)


class Consolidation:
    """Jobs `a`, `b`, … of these weights, of which these sets fit elsewhere.

    first: the sets that are tried first; sure: the first of these is certainly the cheapest. certain: that a set does not fit is.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        weights: Sequence[int],
        fits: Sequence[str],
        *,
        first: Sequence[str] = (),
        sure: bool = False,
        certain: bool = True,
        steps: int = 100,
        broken: Mapping[str, int] | None = None,
    ) -> None:
        self.tried: list[str] = []
        self.budget = StepBudget(steps)
        step_of = {name: Step(name, weight, (broken or {}).get(name, 0)) for name, weight in zip("abcd", weights, strict=False)}

        def places(_self: Any, chosen: Sequence[Any]) -> Any:
            self.tried.append(names(chosen))
            return (PLACE, {}) if names(chosen) in fits else None

        def search(_problem: Any) -> Any:
            return type("Search", (), {"certain": certain, "places": places})()

        totals = type("Totals", (), {"missing": lambda _self, _unit: None})
        promising = [[step_of[name] for name in chosen] for chosen in first]
        monkeypatch.setattr(consolidation, "_RelocationSearch", search)
        monkeypatch.setattr(consolidation.FreeTotals, "of", lambda _cluster: totals())
        monkeypatch.setattr(consolidation, "_promising_sets", lambda *_: (promising, sure))
        preemption = type("Preemption", (), {"max_migrations": None})
        rules = type("Rules", (), {"preemption": preemption})
        snapshot = type("Snapshot", (), {"cluster": None, "state": type("State", (), {"rules": rules})})
        candidates: Any = Candidates({name: [step] for name, step in step_of.items()})  # type: ignore[list-item]
        problem: Any = type("Problem", (), {
            "candidates": lambda _self: candidates, "budget": self.budget, "snapshot": snapshot, "unit": None,
            "index": type("Index", (), {"fragmentation": Fragmentation}),
        })  # fmt: skip
        solution = _consolidate(problem())
        self.why, self.proven = solution.why, solution.proven
        self.moved = None if solution.victims is None else names(solution.victims)


def test_a_set_that_is_certainly_the_cheapest_is_moved_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Consolidation(monkeypatch, (1, 2), ["a", "b"], first=["a"], sure=True, certain=False, steps=0)
    assert (found.moved, found.proven, found.tried) == ("a", True, ["a"])


@pytest.mark.parametrize("sure", [True, False])
def test_of_the_sets_tried_first_only_the_first_may_be_certainly_the_cheapest(
    monkeypatch: pytest.MonkeyPatch, sure: bool
) -> None:
    found = Consolidation(monkeypatch, (1, 2, 4), ["b", "c"], first=["a", "c"], sure=sure)
    assert (found.moved, found.proven) == ("b", True)


def test_a_first_set_that_may_not_be_the_cheapest_is_replaced_by_a_cheaper_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Consolidation(monkeypatch, (1, 2, 4), ["b", "c"], first=["c"])
    assert (found.moved, found.proven) == ("b", True)


def test_no_set_that_weighs_as_much_as_the_best_is_tried_and_that_costs_no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Consolidation(monkeypatch, (1, 2, 4), ["a", "b"], first=["a"], steps=0)
    assert (found.moved, found.proven, found.tried, found.budget.used) == ("a", True, ["a"], 0)


def test_a_set_that_weighs_more_with_the_nodes_that_it_breaks_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Consolidation(monkeypatch, (1, 2), ["a", "b"], first=["b"], broken={"a": 3})
    assert (found.moved, found.proven, found.tried) == ("b", True, ["b"])


def test_with_its_steps_used_up_the_best_so_far_is_moved_and_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Consolidation(monkeypatch, (1, 2), ["a", "b"], first=["b"], steps=0)
    assert (found.moved, found.proven, found.tried) == ("b", False, ["b"])
    found = Consolidation(monkeypatch, (1, 2), ["a", "b"], steps=0)
    assert (found.moved, found.proven, found.why) == (None, False, "found no jobs to relocate within the step budget")


@pytest.mark.parametrize("certain", [True, False])
def test_the_best_is_proven_if_it_is_certain_that_the_cheaper_ones_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, certain: bool
) -> None:
    found = Consolidation(monkeypatch, (1, 2), ["b"], certain=certain)
    assert (found.moved, found.proven, found.tried) == ("b", certain, ["a", "b"])


@pytest.mark.parametrize(
    ("certain", "why"),
    [
        (True, "relocating 2 jobs does not make it fit"),
        (False, "found no new placements for the jobs to relocate within the step budget"),
    ],
)
def test_where_no_set_fits_that_is_proven_only_if_it_is_certain(monkeypatch: pytest.MonkeyPatch, certain: bool, why: str) -> None:
    found = Consolidation(monkeypatch, (1, 2), [], certain=certain)
    assert (found.moved, found.proven, found.why, found.tried) == (None, certain, why, ["a", "b", "ab"])


# --- new places of one set


class Relocation:
    """The search for new places of `low`, which runs where `big` has to run. place: what is found for `big` alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: Any, *joint: Any) -> None:
        sketch = Sketch()
        sketch.node("a", gpus=2)
        sketch.node("b", gpus=2)
        sketch.running("low", "a", [0])
        unit = requested_unit(sketch.job("big", group(gpus=2, nodes=("a",))))
        snapshot = current_snapshot(sketch.state)
        batch = SelectionBatch.on(snapshot)
        constraints = Constraints(snapshot, batch.shares, unit, "consolidate")
        monkeypatch.setattr(constraints, "place", lambda _budget: place)
        results = iter(joint)
        monkeypatch.setattr(consolidation, "place_jointly", lambda *_: next(results))
        problem = Problem(snapshot, batch.index, unit, "consolidate", constraints, {}, StepBudget(100), batch.knapsacks)
        self.search = _RelocationSearch(problem)
        self.steps = problem.candidates().chains["low"]

    def places(self) -> Any:
        return self.search.places(self.steps)


def test_where_no_place_is_found_one_by_one_a_joint_search_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    big, low = GangPlacement((), future=True), GangPlacement((), future=True)
    made = Relocation(monkeypatch, NoFit("gave-up", "within the step budget"), [big, low])
    assert made.places() == (big, {"low": low})
    assert made.search.certain


def test_where_the_preemptor_certainly_does_not_fit_there_is_no_joint_search(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Relocation(monkeypatch, NoFit("impossible", "no node fits one"))  # a joint search would fail
    assert made.places() is None
    assert made.search.certain


@pytest.mark.parametrize(
    ("joint", "certain"),
    [
        (["impossible", "impossible"], True),
        (["gave-up", "impossible"], False),
        (["impossible", "gave-up"], False),
    ],
)
def test_it_is_certain_that_no_set_fits_only_if_that_is_so_for_each(
    monkeypatch: pytest.MonkeyPatch, joint: list[str], certain: bool
) -> None:
    made = Relocation(monkeypatch, NoFit("gave-up", "within the step budget"), *joint)
    assert [made.places() for _ in joint] == [None, None]
    assert made.search.certain is certain


@pytest.mark.parametrize(("over", "found"), [(None, True), ("project p would use 2 of its limit of 1 GPUs", False)])
def test_an_arrangement_beyond_a_limit_proves_nothing_since_another_may_keep_it(
    monkeypatch: pytest.MonkeyPatch, over: str | None, found: bool
) -> None:
    places = [GangPlacement((), future=True), GangPlacement((), future=True)]
    made = Relocation(monkeypatch, NoFit("gave-up", "within the step budget"), places)
    made.search.constraints.constrains_placement = True
    monkeypatch.setattr(made.search.constraints, "over_limit_now", lambda _place: over)
    assert (made.places() is not None) is found
    assert made.search.certain is found


# --- the policy


def ask(jobs: int, *, protected: bool) -> Proposal:
    """A job that needs all GPUs of node a, on which so many jobs with the label of the budget run. Node b is free."""
    sketch = Sketch()
    sketch.state.policy = policy(preemption={"max_migrations": None}, protections=AT_MOST_ONE_WEB if protected else {})
    sketch.node("a", gpus=2)
    sketch.node("b", gpus=2)
    for number in range(jobs):
        job = sketch.running(f"web-{number}", "a", [number])
        job.demand = job.demand.model_copy(update={"labels": {"app": "web"}})
    big = sketch.job("big", group(gpus=2, nodes=("a",)))
    return select_victims(SelectionBatch.on(current_snapshot(sketch.state)), requested_unit(big), "consolidate", StepBudget(1000))


@pytest.mark.parametrize(("jobs", "protected", "moved"), [(1, True, 1), (2, True, 0), (2, False, 2)])
def test_no_more_jobs_move_than_a_disruption_budget_allows(jobs: int, protected: bool, moved: int) -> None:
    assert len(ask(jobs, protected=protected).victims) == moved


def test_a_refusal_says_what_relocation_cannot_change() -> None:
    sketch = Sketch()
    sketch.state.policy = policy(preemption={"max_migrations": None})
    sketch.node("a", gpus=2)
    sketch.running("low", "a", [0])
    big = requested_unit(sketch.job("big", group(gpus=2)))
    answer = select_victims(SelectionBatch.on(current_snapshot(sketch.state)), big, "consolidate", StepBudget(1000))
    assert answer.would_need == "needs 2 GPUs in total, 1 are free or releasing: relocating jobs does not change that"


@pytest.mark.parametrize(("tasks", "sought"), [(2, True), (3, False)])
def test_no_place_is_sought_where_a_set_frees_too_few_slots(monkeypatch: pytest.MonkeyPatch, tasks: int, sought: bool) -> None:
    """One of three GPUs is free, and the set frees another."""
    sketch = Sketch()
    sketch.state.policy = policy(preemption={"max_migrations": None})
    sketch.node("a", gpus=3)
    for number in range(2):
        sketch.running(f"j{number}", "a", [number])
    snapshot, unit = current_snapshot(sketch.state), requested_unit(sketch.job("asks", group(tasks, gpus=1)))
    batch = SelectionBatch.on(snapshot)
    constraints = Constraints(snapshot, batch.shares, unit, "consolidate")
    asked = Problem(snapshot, batch.index, unit, "consolidate", constraints, {}, StepBudget(100), batch.knapsacks)
    calls: list[int] = []
    monkeypatch.setattr(constraints, "place", lambda _: calls.append(1) or NoFit("impossible", ""))
    assert _RelocationSearch(asked).places(asked.candidates().chains["j0"]) is None
    assert bool(calls) is sought
