"""The search for gangs of several kinds of tasks on large pools: kind by kind, the most expensive first."""

from typing import Any

import pytest
from tests.builders import MINUTE, Sketch, group, requested_unit
from tests.unit.core_placement.tables import AT_MOST_ONE_WEB
from tests.unit.core_placement.test_large_pools import names, problem
from tests.unit.core_placement.test_revalidate import policy

from bailiff_core.model.state import Job
from bailiff_core.placement import StepBudget
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import candidates, heterogeneous_gangs, shortlist
from bailiff_core.victims.heterogeneous_gangs import HeterogeneousGangSolver, _infeasible_in_total, _place
from bailiff_core.victims.shortlist import ShortlistSolver
from bailiff_core.victims.solver_interface import Solution


@pytest.fixture(autouse=True)
def every_pool_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heterogeneous_gangs, "MIN_ACTIVE_JOBS", 0)
    monkeypatch.setattr(shortlist, "MIN_ACTIVE_JOBS", 0)
    monkeypatch.setattr(candidates, "SHORTLIST_COST", 0)


def small_nodes(*names: str, free: tuple[str, ...] = ()) -> Sketch:
    """Nodes of one GPU with a job each, those named first the cheapest, and free ones."""
    sketch = Sketch()
    for name in (*names, *free):
        sketch.node(name, gpus=1, labels={"zone": name})
    for age, name in enumerate(names, 1):
        sketch.running(f"on-{name}", name, [0], age=age * MINUTE)
    return sketch


def mixed(sketch: Sketch, *groups: Any) -> Job:
    return sketch.job("mixed", *groups, priority=75)


def solve(sketch: Sketch, *groups: Any) -> Solution | None:
    return HeterogeneousGangSolver().solve(problem(sketch, mixed(sketch, *groups)))


ONE, OTHER = group(gpus=1), group(gpus=1, cpu=1)


@pytest.mark.parametrize(("solver", "groups"), [(HeterogeneousGangSolver(), (ONE, OTHER)), (ShortlistSolver(), (ONE,))])
def test_jobs_that_must_all_move_are_not_the_business_of_searches_on_large_pools(solver: Any, groups: Any) -> None:
    sketch = small_nodes("a", "b")
    assert solver.solve(problem(sketch, mixed(sketch, *groups), "consolidate")) is None


@pytest.mark.parametrize(
    ("sketch", "groups", "victims", "proven"),
    [
        (small_nodes("a", free=("f",)), (ONE, group(gpus=1, cpu=1, nodes=("a",))), ["on-a"], True),
        (small_nodes("a", "b"), (ONE, OTHER), ["on-a", "on-b"], False),  # for each kind alone, `on-a` is enough
        (small_nodes("a", "b", free=("f",)), (ONE, group(2, gpus=1, cpu=1)), ["on-a", "on-b"], False),
    ],
    ids=["the first is enough", "one for each", "beside what fits alone"],
)
def test_a_set_is_proven_if_it_is_the_cheapest_for_the_most_expensive_kind(
    sketch: Sketch, groups: Any, victims: list[str], proven: bool
) -> None:
    found = solve(sketch, *groups)
    assert names(found) == victims
    assert found is not None
    assert (found.proven, found.place is not None) == (proven, True)
    assert [step.job.id for step in found.bound] == ["on-a"]


def test_kinds_that_fit_one_by_one_and_not_together_are_left_to_the_search_among_all_jobs() -> None:
    assert solve(small_nodes("a", free=("f",)), ONE, OTHER) is None


def test_a_set_that_a_disruption_budget_forbids_is_left_to_it_as_well() -> None:
    sketch = small_nodes("a", "b")
    sketch.state.policy = policy(protections=AT_MOST_ONE_WEB)
    for job in sketch.state.jobs.values():
        job.demand = job.demand.model_copy(update={"labels": {"app": "web"}})
    assert solve(sketch, ONE, OTHER) is None


def test_where_the_last_kind_finds_nothing_beside_the_others_it_is_left_to_it_as_well() -> None:
    """Both kinds may use node a only, which the demands say in different ways."""
    named, labelled = group(gpus=1, nodes=("a",)), group(gpus=1, cpu=1, node_labels={"zone": "a"})
    assert solve(small_nodes("a", "b"), named, labelled) is None


def test_where_the_others_take_what_is_free_and_nothing_can_be_evicted_there_as_well() -> None:
    """For itself each kind finds a place on f, one of them with the GPU of `on-a`."""
    named, labelled = group(2, gpus=1, nodes=("a", "f")), group(gpus=1, cpu=1, node_labels={"zone": "f"})
    assert solve(small_nodes("a", "b", free=("f",)), named, labelled) is None


@pytest.mark.parametrize("order", [1, -1])
def test_that_all_kinds_together_are_too_many_is_proven_whichever_comes_first(order: int) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.running("low", "a", range(2))
    found = _infeasible_in_total(problem(sketch, mixed(sketch, *(group(gpus=2), group(gpus=1))[::order])))
    assert found is not None
    assert (found.victims, found.proven) == (None, True)


def test_no_unit_of_a_job_stays_after_which_a_needed_one_was_evicted() -> None:
    """One kind needs node b, on which task 1 runs: 3 and 2 are evicted before it. The other one needs node d."""
    sketch = Sketch()
    for name in "abcde":
        sketch.node(name, gpus=4)
    wide = sketch.at(sketch.job("wide", group(4, gpus=4)), *((name, range(4)) for name in "abce"))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    sketch.running("other", "d", range(4))
    found = solve(sketch, group(gpus=4, nodes=("b",)), group(gpus=4, cpu=1, nodes=("d",)))
    assert found is not None
    victims = sorted((step.job.id, step.unit.indices) for step in found.victims or ())
    assert victims == [("other", (0,)), ("wide", (1,)), ("wide", (2,)), ("wide", (3,))]


def test_two_kinds_take_two_surplus_tasks_of_one_job() -> None:
    sketch = Sketch()
    for name in "abc":
        sketch.node(name, gpus=1)
    wide = sketch.at(sketch.job("wide", group(3, gpus=1)), *((name, [0]) for name in "abc"))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    found = solve(sketch, ONE, OTHER)
    assert found is not None
    assert sorted(step.unit.indices for step in found.victims or ()) == [(1,), (2,)]


def test_a_kind_of_tasks_is_placed_as_a_reservation() -> None:
    sketch = small_nodes(free=("f",))
    place = _place(current_snapshot(sketch.state), requested_unit(mixed(sketch, ONE)), StepBudget(10))
    assert place is not None
    assert place.future
