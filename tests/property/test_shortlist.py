"""On large pools few nodes are searched: the result equals that of searching all nodes."""

import random
from collections import Counter

import pytest
from tests.builders import MINUTE, Sketch, group, requested_unit

from bailiff_core.model.proposal import Cost
from bailiff_core.model.state import Job, OpenRequest
from bailiff_core.placement import StepBudget
from bailiff_core.queue.order import shares_now
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import Accepted, SelectionBatch, heterogeneous_gangs, revalidate_proposal, select_victims, shortlist
from bailiff_core.victims.batch import select_batch


def some_pool(seed: int) -> tuple[Sketch, list[OpenRequest]]:
    """Nodes of several sizes full of jobs of several sizes, classes and ages, many equal; and some preemptors."""
    dice = random.Random(seed)
    sketch = Sketch()
    nodes = dice.randint(2, 12)
    for n in range(nodes):
        sketch.node(f"n{n}", gpus=dice.choice((2, 4, 8)), cpu=dice.choice((8, 1000)))
    number = 0
    ages = [MINUTE * dice.randint(1, 90) for _ in range(dice.randint(1, 4))]
    for n in range(nodes):
        free = list(range(len(sketch.state.nodes[n].devices)))
        while free and dice.random() < 0.95:
            size = min(len(free), dice.choice((1, 1, 2, 4)))
            sketch.running(
                f"j{number}",
                f"n{n}",
                [free.pop(0) for _ in range(size)],
                priority=dice.choice((10, 20, 30)),
                preemptible=dice.random() < 0.9,
                age=dice.choice(ages),
                phase=dice.choice(("running",) * 9 + ("reserved", "evicting")),
            )
            number += 1
    for _ in range(dice.randint(0, 3)):  # gangs over two nodes
        job = sketch.job(f"j{number}", group(2, cpu=1), priority=dice.choice((10, 20)))
        one, other = dice.sample(range(nodes), 2)
        sketch.at(job, (f"n{one}", []), (f"n{other}", []))
        number += 1
    requests = []
    for n in range(dice.randint(1, 3)):
        gang = group(dice.choice((1, 1, 2, 3)), gpus=dice.choice((1, 2, 4, 8)), cpu=dice.choice((0, 1)))
        sketch.job(f"preemptor-{n}", gang, priority=dice.choice((20, 30, 40)))
        requests.append(OpenRequest(n + 1, f"preemptor-{n}"))
    return sketch, requests


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
    for seed in range(block * 100, block * 100 + 100):
        assert chosen(seed, monkeypatch, few=True) == chosen(seed, monkeypatch, few=False), f"seed {seed}"


def gang_of_two_kinds(seed: int) -> tuple[Sketch, Job]:
    """Such a pool, and a preemptor with tasks of two kinds."""
    sketch, _ = some_pool(seed)
    dice = random.Random(seed + 1)
    kinds = [group(dice.choice((1, 1, 2)), gpus=gpus, cpu=dice.choice((0, 1))) for gpus in dice.sample((1, 2, 4, 8), 2)]
    return sketch, sketch.job("mixed", *kinds, priority=dice.choice((20, 30, 40)))


def test_for_heterogeneous_gangs_the_result_is_the_same_or_a_bound_is_reported(monkeypatch):
    seen: Counter[str] = Counter()
    for seed in range(200):
        sketch, preemptor = gang_of_two_kinds(seed)
        best = select_victims(
            SelectionBatch.on(current_snapshot(sketch.state)), requested_unit(preemptor), "preempt", StepBudget(20_000)
        )
        monkeypatch.setattr(shortlist, "INITIAL_SIZE", 1)
        monkeypatch.setattr(heterogeneous_gangs, "MIN_ACTIVE_JOBS", 0)
        monkeypatch.setattr(shortlist, "MIN_ACTIVE_JOBS", 0)
        quick = select_victims(
            SelectionBatch.on(current_snapshot(sketch.state)), requested_unit(preemptor), "preempt", StepBudget(20_000)
        )
        monkeypatch.undo()
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
