"""What a proposal says beside the names of the victims: GPUs, rules that exclude, new places, the next best set."""

import json

import pytest
from tests.builders import HOUR, MINUTE, Sketch, group, requested_unit

from bailiff_core.model.policy import DEFAULT_POLICY, Action, Policy
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Job
from bailiff_core.placement import StepBudget
from bailiff_core.queue.order import shares_now
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import Accepted, SelectionBatch, revalidate_proposal, select_victims, shortlist


def policy(*projects: dict[str, object]) -> Policy:
    document = {**DEFAULT_POLICY.model_dump(mode="json"), "projects": projects}
    return Policy.model_validate_json(json.dumps(document))


def answer(sketch: Sketch, preemptor: Job, action: Action = "preempt") -> Proposal:
    sketch.state.indices.snapshot = None
    snapshot = current_snapshot(sketch.state)
    return select_victims(SelectionBatch.on(snapshot), requested_unit(preemptor), action, StepBudget(20_000))


def test_the_gpus_of_a_victim_are_whole_gpus_however_many() -> None:
    sketch = Sketch()
    nodes = [f"n{number}" for number in range(27)]
    for name in nodes:
        sketch.node(name, gpus=37)
    sketch.at(sketch.job("wide", group(27, gpus=37)), *((name, range(37)) for name in nodes))
    preemptor = sketch.job("preemptor", group(27, gpus=37), priority=75)
    found = answer(sketch, preemptor)
    assert [victim.gpus for victim in found.victims] == [999]
    snapshot = current_snapshot(sketch.state)
    checked = revalidate_proposal(snapshot, shares_now(snapshot), preemptor, found)
    assert isinstance(checked, Accepted)
    assert checked.victims == found.victims


@pytest.mark.parametrize(("limit", "moved"), [(2, False), (4, True)])
def test_a_victim_evicted_for_a_limit_gets_no_new_place(limit: int, moved: bool) -> None:
    """With a limit of four, only the place is missing: the victim is moved. With two, it would exceed the limit again."""
    sketch = Sketch()
    sketch.state.policy = policy({"name": "p", "quota": {"gpus": 4}, "limit": {"gpus": limit}})
    sketch.node("a", gpus=2)
    sketch.node("b", gpus=2)
    low = sketch.running("low", "a", range(2), priority=25)
    low.project = "p"
    preemptor = sketch.job("preemptor", group(gpus=2, nodes=("a",)), priority=75)
    preemptor.project = "p"
    (victim,) = answer(sketch, preemptor).victims
    assert victim.job == "low"
    assert bool(victim.moved_to) is moved


@pytest.mark.parametrize("few", [True, False])
def test_rules_that_exclude_are_named_in_order_with_the_first_jobs_of_each(few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlist, "MIN_ACTIVE_JOBS", 1 << 30 if few else 0)
    sketch = Sketch()
    sketch.node("a", gpus=9)
    for number in range(6):
        sketch.running(f"firm-{number}", "a", [number], preemptible=False)
    sketch.running("equal", "a", [6], priority=75)
    sketch.running("leaving", "a", [7], phase="evicting")
    sketch.running("low", "a", [8], priority=25)
    found = answer(sketch, sketch.job("preemptor", group(gpus=3), priority=75))
    assert [(each.rule, each.jobs, each.examples) for each in found.explanation.excluded] == [
        ("already-evicting", 1, ("leaving",)),
        ("lower-priority-only", 1, ("equal",)),
        ("not-preemptible", 6, ("firm-0", "firm-1", "firm-2", "firm-3", "firm-4")),
    ]


@pytest.mark.parametrize("tasks", [2, 3])
def test_protected_jobs_are_named_only_if_they_would_suffice(tasks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlist, "MIN_ACTIVE_JOBS", 0)
    sketch = Sketch()
    for name in ("a", "b"):
        sketch.node(name, gpus=2)
        sketch.running(f"on-{name}", name, range(2), preemptible=False)
    found = answer(sketch, sketch.job("preemptor", group(tasks, gpus=2), priority=75))
    assert found.refused == "impossible"
    assert ("it would still need" in found.would_need) == (tasks == 2), found.would_need


def test_the_next_best_set_spares_the_dearest_victims_first() -> None:
    """Two GPUs of one node are needed: the two cheap jobs go. Next best is without the dearer of them."""
    sketch = Sketch()
    sketch.node("a", gpus=4)
    for number, age in enumerate((MINUTE, 5 * MINUTE, 20 * MINUTE, HOUR)):
        sketch.running(f"j{number}", "a", [number], age=age)
    found = answer(sketch, sketch.job("preemptor", group(gpus=2), priority=75))
    assert [victim.job for victim in found.victims] == ["j0", "j1"]
    assert found.explanation.runner_up == ("j0", "j2")


def test_a_shortlist_is_extended_until_no_node_outside_can_be_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    """`a` looks cheaper, with its youngest work on one GPU; but only its old job frees two GPUs. The job on `b` costs less."""
    monkeypatch.setattr(shortlist, "MIN_ACTIVE_JOBS", 0)
    monkeypatch.setattr(shortlist, "INITIAL_SIZE", 0)
    sketch = Sketch()
    sketch.node("a", gpus=3)
    sketch.node("b", gpus=2)
    sketch.running("young", "a", [0], age=MINUTE)
    sketch.running("old", "a", [1, 2], age=50 * MINUTE)
    sketch.running("middle", "b", range(2), age=30 * MINUTE)
    found = answer(sketch, sketch.job("preemptor", group(gpus=2), priority=75))
    assert [victim.job for victim in found.victims] == ["middle"]
    assert found.explanation.proven
