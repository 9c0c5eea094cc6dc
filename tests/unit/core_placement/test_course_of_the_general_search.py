"""The course of the general search: what is asked of its parts, in which state of the pool, and when a part is left out."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.builders import MINUTE, Sketch, group
from tests.unit.core_placement.tables import preemptor_of_another_project, two_full_nodes
from tests.unit.core_placement.test_general_search import search as search_for
from tests.unit.core_placement.test_general_search_parts import Slots, names, step, three_jobs
from tests.unit.core_placement.test_revalidate import policy

from bailiff_core.placement import GangPlacement, StepBudget
from bailiff_core.victims import search
from bailiff_core.victims.fit_oracle import PlacementOracle, QuotaOracle, SlotOracle
from bailiff_core.victims.search import GeneralSearch
from bailiff_core.victims.set_weights import SetWeights
from bailiff_core.victims.solver_interface import Solution


def reclaim() -> GeneralSearch:
    sketch = two_full_nodes()
    sketch.state.policy = policy({"name": "a"}, {"name": "b", "quota": {"gpus": 8}})
    return search_for(sketch, preemptor_of_another_project(sketch), "reclaim")


def limited() -> GeneralSearch:
    """`one`, `two` and the preemptor are of one project, whose limit is that of the preemptor alone."""
    sketch = two_full_nodes()
    sketch.state.policy = policy({"name": "a", "limit": {"gpus": 4}})
    preemptor = preemptor_of_another_project(sketch)
    preemptor.project = "a"
    return search_for(sketch, preemptor, "preempt")


# --- each kind of tasks on its own


def test_where_equal_tasks_are_solved_no_other_search_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = three_jobs()
    solution = Solution(made.candidates, proven=True)
    monkeypatch.setattr(made, "_relaxed", lambda: solution)
    monkeypatch.setattr(made, "_general", lambda: pytest.fail("it is solved"))
    assert made.run() is solution


def test_a_kind_of_tasks_for_which_there_is_certainly_no_set_proves_that_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    made = three_jobs()
    monkeypatch.setattr(search, "knapsack_for", lambda *_: (Slots(lambda _: (None, True)), 1))
    found = made._relaxed()
    assert found is not None
    assert (found.victims, found.proven) == (None, True)


def equal_jobs() -> GeneralSearch:
    """`one`, `two` and `three` cost the same; `dear` costs more."""
    sketch = Sketch()
    for node, name, age in (("a", "one", 1), ("b", "two", 1), ("c", "three", 1), ("d", "dear", 9)):
        sketch.node(node, gpus=2)
        sketch.running(name, node, range(2), age=age * MINUTE)
    return search_for(sketch, sketch.job("preemptor", group(gpus=2), priority=75), "preempt")


@pytest.mark.parametrize(
    ("first", "second", "bound"), [("dear", "one", "dear"), ("one", "dear", "dear"), ("one", "two", "one"), ("two", "one", "two")]
)
def test_the_bound_is_the_first_of_the_most_expensive_sets_of_each_kind_of_tasks(
    monkeypatch: pytest.MonkeyPatch, first: str, second: str, bound: str
) -> None:
    made = equal_jobs()
    made.needs, made._simple = {"x": (0,), "y": (1,)}, None  # type: ignore[dict-item]
    slots = iter([Slots(lambda _, name=name: ([step(made, name)], True)) for name in (first, second)])
    monkeypatch.setattr(search, "knapsack_for", lambda *_: (next(slots), 1))
    monkeypatch.setattr(made, "_fits_without", lambda _steps: False)
    assert made._relaxed() is None
    assert names(made.bound) == [bound]


@pytest.mark.parametrize(
    ("others", "rejected", "named"),
    [
        (("two", "three"), (), ["two"]),  # of equally good sets the first
        (("three", "two"), (), ["three"]),
        (("two", "three"), ("two",), ["three"]),
        (("dear", "three"), (), ["three"]),
        (("two", "three"), ("two", "three"), []),
    ],
)
def test_the_next_best_set_is_the_first_of_the_cheapest_that_are_permitted(
    monkeypatch: pytest.MonkeyPatch, others: tuple[str, str], rejected: tuple[str, ...], named: list[str]
) -> None:
    made = equal_jobs()
    made.bound = [step(made, "dear"), step(made, "one")]
    found = iter(others)
    monkeypatch.setattr(made.constraints, "rejects", lambda units: units[0].job.id in rejected)
    slots: Any = Slots(lambda _: ([step(made, next(found))], True))
    assert names(made._knapsack_runner_up(slots, 1)) == named


@pytest.mark.parametrize(("victims", "fits"), [((), False), (("cheap",), True)])
def test_whether_a_set_is_enough_is_asked_without_it_and_nothing_remains_of_that(victims: tuple[str, ...], fits: bool) -> None:
    made = three_jobs()

    def pool() -> list[Any]:
        return [(node.unallocated, node.future) for node in made.cluster.nodes.values()]

    before, used = pool(), made.snapshot.usage.allocated("")
    assert made._fits_without([step(made, name) for name in victims]) is fits
    assert (pool(), made.snapshot.usage.allocated("")) == (before, used)


# --- with and without new places


@pytest.mark.parametrize(
    ("made", "found", "searches"),
    [
        (three_jobs, False, [False]),
        (reclaim, False, [False, True]),
        (reclaim, True, [False]),
        (limited, False, [False]),
    ],
)
def test_under_reclaim_a_set_whose_victims_move_is_sought_where_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch, made: Callable[[], GeneralSearch], found: bool, searches: list[bool]
) -> None:
    general = made()
    tried: list[bool] = []

    def search_among(_chains: Any, *, with_relocations: bool) -> Solution:
        tried.append(with_relocations)
        return Solution(general.candidates, general.candidates.steps()[:1] if found else None, proven=True)

    monkeypatch.setattr(general, "_search_among", search_among)
    general._general()
    assert tried == searches


def test_where_reclaim_has_to_keep_a_limit_no_victim_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    made = reclaim()
    made.constraints.has_limits = True
    tried: list[bool] = []

    def search_among(_chains: Any, *, with_relocations: bool) -> Solution:
        tried.append(with_relocations)
        return Solution(made.candidates)

    monkeypatch.setattr(made, "_search_among", search_among)
    made._general()
    assert tried == [False]


def test_a_job_of_which_nothing_may_be_evicted_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    made = three_jobs()
    monkeypatch.setattr(made.constraints, "allows", lambda units: units[0].job.id == "middle")
    assert [names(chain) for chain in made._permitted()] == [["middle"]]


@pytest.mark.parametrize(
    ("made", "oracle", "inner", "used"),
    [(three_jobs, SlotOracle, None, 6000), (reclaim, SlotOracle, None, 8000), (limited, QuotaOracle, SlotOracle, 0)],
)
def test_all_candidates_are_evicted_and_of_the_usage_of_projects_only_where_limits_are_kept(
    monkeypatch: pytest.MonkeyPatch, made: Callable[[], GeneralSearch], oracle: type, inner: type | None, used: int
) -> None:
    general = made()
    seen: list[Any] = []

    def best(given: Any, _chains: Any, **_: Any) -> Solution:
        free = [node.future.devices.bit_count() for node in general.cluster.nodes.values()]
        assert free == [node.usable.bit_count() for node in general.cluster.nodes.values()]
        seen.append((type(given), type(getattr(given, "oracle", None)), general.snapshot.usage.allocated("").gpu_milli))
        return Solution(general.candidates)

    monkeypatch.setattr(general, "_best", best)
    general._search_among(list(general.candidates.chains.values()), with_relocations=False)
    assert seen == [(oracle, type(None) if inner is None else inner, used)]


@pytest.mark.parametrize("constrained", [True, False])
def test_a_unit_of_several_kinds_of_tasks_is_placed_within_the_limits_that_depend_on_its_place(
    monkeypatch: pytest.MonkeyPatch, constrained: bool
) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    made = search_for(sketch, sketch.job("preemptor", group(gpus=1), group(cpu=1), priority=75), "preempt")
    made.constraints.constrains_placement = constrained
    monkeypatch.setattr(made.constraints, "place", lambda _: GangPlacement((), future=True))
    seen: list[Any] = []
    monkeypatch.setattr(made, "_best", lambda oracle, *_, **__: seen.append(oracle))
    made._search_among([], with_relocations=False)
    assert [type(each) for each in seen] == [PlacementOracle]
    assert (seen[0].constraints is made.constraints) is constrained


# --- branch and bound


class Asked:
    """What branch and bound is asked for; it finds nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, finished: bool = True) -> None:
        self.order: list[str] | None = None
        self.limit: int | None = None
        self.accept: Any = None
        self.free: list[int] = []
        self.oracle: Any = None
        self._finished = finished
        monkeypatch.setattr(search, "branch_and_bound", self._run)

    def _run(
        self, oracle: Any, order: Any, _weights: Any, limit: int | None, _part: Any, *, accept: Any, **_: Any
    ) -> tuple[None, bool]:
        self.oracle, self.order, self.limit, self.accept = oracle, names(order), limit, accept
        self.free = [node.future.devices.bit_count() for node in oracle.cluster.nodes.values()]
        return None, self._finished


def test_jobs_where_the_preemptor_may_not_run_have_their_gpus_and_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = Sketch()
    for name in ("a", "b", "c"):
        sketch.node(name, gpus=2)
        sketch.running(f"on-{name}", name, range(2), age=MINUTE)
    made = search_for(sketch, sketch.job("preemptor", group(gpus=2, nodes=("a", "b")), priority=75), "preempt")
    asked = Asked(monkeypatch)
    made._search_among(list(made.candidates.chains.values()), with_relocations=False)
    assert sorted(asked.order or ()) == ["on-a", "on-b"]
    assert asked.free == [2, 2, 0]


def test_only_sets_lighter_than_the_first_are_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    made = three_jobs()
    asked = Asked(monkeypatch)
    found = made._search_among(list(made.candidates.chains.values()), with_relocations=False)
    weights = SetWeights.of_steps(made.candidates.steps(), made.fragmentation)
    assert found.victims is not None
    assert asked.limit == weights.of(found.victims)


@pytest.mark.parametrize("finished", [True, False])
def test_without_a_permitted_set_the_reason_is_given_unless_it_is_proven(monkeypatch: pytest.MonkeyPatch, finished: bool) -> None:
    made = three_jobs()
    asked = Asked(monkeypatch, finished=finished)
    monkeypatch.setattr(made, "_first", lambda *_: [])
    found = made._search_among(list(made.candidates.chains.values()), with_relocations=False)
    assert (asked.limit, found.victims, found.proven) == (None, None, finished)
    assert ("within the step budget" in found.why) is not finished


def test_where_nothing_fits_with_all_evicted_no_set_is_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.running("low", "a", range(2))
    made = search_for(sketch, sketch.job("preemptor", group(gpus=3), priority=75), "preempt")
    asked = Asked(monkeypatch)
    found = made._search_among(list(made.candidates.chains.values()), with_relocations=False)
    assert (asked.order, found.victims, found.proven) == (None, None, True)


@pytest.mark.parametrize(("victims", "accepted"), [(["one"], True), (["two"], True), (["one", "two"], False)])
def test_a_set_with_a_victim_that_is_not_needed_is_not_accepted(
    monkeypatch: pytest.MonkeyPatch, victims: list[str], accepted: bool
) -> None:
    made = reclaim()
    verdicts: list[bool] = []

    def search_all(oracle: Any, *_: Any, accept: Any, **__: Any) -> tuple[None, bool]:
        kept = [each for each in made.candidates.steps() if each.job.id not in victims]
        for each in kept:
            oracle.restore(each)
        verdicts.append(accept([step(made, name) for name in victims], StepBudget(100)))
        for each in kept:
            oracle.evict(each)
        return None, True

    monkeypatch.setattr(search, "branch_and_bound", search_all)
    made._search_among(list(made.candidates.chains.values()), with_relocations=False)
    assert verdicts == [accepted]


def test_a_surplus_task_that_goes_before_a_needed_one_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=3)
    wide = sketch.at(sketch.job("wide", group(3, gpus=1)), *(("a", [number]) for number in range(3)))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    made = search_for(sketch, sketch.job("preemptor", group(gpus=1), priority=75), "preempt")
    monkeypatch.setattr(made, "_fits_with_restored", lambda unit, _budget: unit.indices == (2,))
    steps = made.candidates.chains["wide"]
    accepted = [made._acceptable(steps[:count], StepBudget(100), with_relocations=True) for count in (1, 2, 3)]
    assert accepted == [False, True, True]
