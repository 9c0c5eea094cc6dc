"""On large pools few nodes are searched: the result equals that of searching all nodes."""

import random
from collections import Counter

import pytest
from tests.kits.builders import Sketch, group, requested_unit
from tests.kits.examples import share
from tests.property.full_pools import as_on_large_pools, gang_of_two_kinds, some_pool

from bailiff_core.model.proposal import Cost
from bailiff_core.placement import StepBudget
from bailiff_core.queue.order import shares_now
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import Accepted, SelectionBatch, heterogeneous_gangs, revalidate_proposal, select_victims, shortlist
from bailiff_core.victims.batch import select_batch


def chosen(seed: int, monkeypatch: pytest.MonkeyPatch, *, few: bool) -> list[tuple[object, ...]]:
    monkeypatch.setattr(shortlist, "MIN_ACTIVE_JOBS", 0 if few else 1 << 30)
    sketch, requests = some_pool(seed)
    proposals = select_batch(sketch.state, requests, 20_000)
    return [
        (
            answer.refused,
            answer.victims,
            answer.placement,
            answer.explanation.cost,
            answer.explanation.proven,
            answer.explanation.candidates,
            {excluded.rule: excluded.jobs for excluded in answer.explanation.excluded},
        )
        for answer in proposals
    ]


@pytest.mark.parametrize("block", range(4))
def test_a_shortlist_of_nodes_gives_the_result_of_all_nodes(block, monkeypatch):
    monkeypatch.setattr(shortlist, "INITIAL_SIZE", 1)
    for seed in range(block * 100, block * 100 + share(100)):
        assert chosen(seed, monkeypatch, few=True) == chosen(seed, monkeypatch, few=False), f"seed {seed}"


def test_for_heterogeneous_gangs_the_result_is_the_same_or_a_bound_is_reported():
    seen: Counter[str] = Counter()
    for seed in range(share(200)):
        sketch, preemptor = gang_of_two_kinds(seed)
        best = select_victims(
            SelectionBatch.on(current_snapshot(sketch.state)), requested_unit(preemptor), "preempt", StepBudget(20_000)
        )
        with as_on_large_pools():
            quick = select_victims(
                SelectionBatch.on(current_snapshot(sketch.state)), requested_unit(preemptor), "preempt", StepBudget(20_000)
            )
        assert quick.refused == best.refused, f"seed {seed}"
        if not best.victims:
            continue
        snapshot = current_snapshot(sketch.state)
        checked = revalidate_proposal(snapshot, shares_now(snapshot), preemptor, quick)
        assert isinstance(checked, Accepted), f"seed {seed}: {checked}"
        assert (checked.victims, checked.dropped) == (quick.victims, ()), f"seed {seed}: a victim is not needed"
        if quick.explanation.proven and best.explanation.proven:
            assert quick.victims == best.victims, f"seed {seed}"
        seen["proven" if quick.explanation.proven else "bound"] += 1
        if not quick.explanation.proven and best.explanation.proven:
            assert quick.explanation.lower_bound is not None, f"seed {seed}"
            assert levels(quick.explanation.lower_bound) <= levels(best.explanation.cost) <= levels(quick.explanation.cost), (
                f"seed {seed}"
            )
    assert seen["proven"] > seen["bound"] // 4 > 0, seen


def test_where_the_budget_ends_the_search_the_next_best_set_is_no_cheaper_and_the_bound_no_dearer():
    seen: Counter[str] = Counter()
    for seed in range(150):
        sketch, _ = some_pool(seed)
        dice = random.Random(seed * 7 + 1)
        kinds = [group(dice.choice((1, 2, 3)), gpus=gpus, cpu=dice.choice((0, 1))) for gpus in dice.sample((1, 2, 4, 8), 2)]
        preemptor = sketch.job("mixed", *kinds, priority=40)
        batch = SelectionBatch.on(current_snapshot(sketch.state))
        answer = select_victims(batch, requested_unit(preemptor), "preempt", StepBudget(60))
        if not answer.victims or answer.explanation.proven:
            continue
        cost = levels(answer.explanation.cost)
        assert levels(answer.explanation.lower_bound) <= cost, f"seed {seed}"
        seen["bound below"] += levels(answer.explanation.lower_bound) < cost
        if answer.explanation.runner_up:
            assert cost <= levels(answer.explanation.runner_up_cost), f"seed {seed}"
            assert answer.explanation.runner_up != tuple(choice.job for choice in answer.victims), f"seed {seed}"
            seen["runner-up"] += 1
    assert seen["runner-up"] > 5 < seen["bound below"], seen


def levels(cost: Cost | None) -> list[int]:
    """Level by level, as the objective compares them."""
    assert cost is not None
    of_class = {entry.priority: entry.gpu_milli for entry in cost.classes}
    gpus = [of_class.get(priority, 0) for priority in (40, 30, 20, 10)]
    return [*gpus, cost.lost_gpu_ms, cost.jobs_stopped, cost.tasks]


@pytest.mark.parametrize(("ones", "refused"), [(8, None), (9, "impossible")])
def test_kinds_that_fit_one_by_one_and_not_together_are_refused_by_counting(ones, refused, monkeypatch):
    """30 nodes of eight GPUs: 29 whole ones leave eight GPUs for the tasks of the other kind, and no ninth."""
    sketch = Sketch()
    for n in range(30):
        sketch.node(f"n{n}")
    for n in range(240):
        sketch.running(f"j{n}", f"n{n // 8}", [n % 8], priority=20)
    preemptor = sketch.job("mixed", group(29, gpus=8), group(ones, gpus=1), priority=30)
    if refused is not None:
        monkeypatch.setattr(heterogeneous_gangs, "search_shortlist", None)  # no candidate is searched
    answer = select_victims(
        SelectionBatch.on(current_snapshot(sketch.state)), requested_unit(preemptor), "preempt", StepBudget(20_000)
    )
    assert (answer.refused, answer.explanation.proven) == (refused, True)
    if refused is not None:
        assert answer.would_need.endswith("equivalent to 241 × (1 GPU); with all permitted victims evicted at most 240 fit")
        assert answer.explanation.candidates == 240


def test_a_kind_that_is_bound_to_nodes_says_nothing_of_kinds_that_are_not():
    """30 full nodes of eight GPUs: one task needs n0, and two of eight GPUs fit on any others."""
    sketch = Sketch()
    for n in range(30):
        sketch.node(f"n{n}")
    for n in range(240):
        sketch.running(f"j{n}", f"n{n // 8}", [n % 8], priority=20)
    preemptor = sketch.job("mixed", group(2, gpus=8), group(1, gpus=1, nodes=("n0",)), priority=30)
    answer = select_victims(
        SelectionBatch.on(current_snapshot(sketch.state)), requested_unit(preemptor), "preempt", StepBudget(20_000)
    )
    assert answer.refused is None
