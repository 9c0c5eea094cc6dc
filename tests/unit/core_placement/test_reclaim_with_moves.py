"""A reclaim that may take nothing for good: every victim must have a new place, and each must be needed by itself."""

import json

import pytest
from tests.builders import Sketch, group, requested_unit

from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.proposal import Proposal
from bailiff_core.placement import StepBudget
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, select_victims


def two_halves(minimum: int, *, dear: bool) -> Proposal:
    """The answer for one GPU of a or b (or c, where `dear` runs); all victims are within their project's quota.

    The tasks of `halves` use half of a's GPU and half of b's. Without its second task, b's GPU is free, but that task has no
    place: a has CPU for one task only. Without both of them, the preemptor fits on a, and both fit on b.
    """
    sketch = Sketch()
    projects = [{"name": "asks", "quota": {"gpus": 1}}, {"name": "runs", "quota": {"gpus": 3}}]
    sketch.state.policy = Policy.model_validate_json(json.dumps({**DEFAULT_POLICY.model_dump(mode="json"), "projects": projects}))
    for name, cpu in (("a", 1), ("b", 2), ("c", 1), ("d", 1)):
        sketch.node(name, gpus=1, cpu=cpu)
    halves = sketch.job("halves", group(2, gpu_share_milli=500, cpu=1, nodes=("a", "b")))
    halves.demand = halves.demand.model_copy(update={"min_tasks": minimum})
    sketch.at(halves, ("a", [0]), ("b", [0]))
    halves.project = "runs"
    if dear:
        sketch.running("dear", "c", [0], priority=75).project = "runs"
    preemptor = sketch.job("preemptor", group(gpus=1, cpu=1, nodes=("a", "b", "c") if dear else ("a", "b")))
    preemptor.project = "asks"
    batch = SelectionBatch.on(current_snapshot(sketch.state))
    return select_victims(batch, requested_unit(preemptor), "reclaim", StepBudget(20_000))


def moves(answer: Proposal) -> dict[str, list[tuple[str, int]]]:
    """By victim, its moved tasks and their new nodes."""
    return {victim.job: [(place.tasks, place.node) for place in victim.moved_to] for victim in answer.victims}


@pytest.mark.parametrize("dear", [False, True])
def test_a_rigid_job_moves_whole_because_no_part_of_it_may_stay(dear: bool) -> None:
    answer = two_halves(2, dear=dear)
    assert moves(answer) == {"halves": [("0", 1), ("1", 1)]}
    assert [place.node for place in answer.placement] == [0]
    assert answer.explanation.proven


def test_a_core_is_not_moved_only_so_that_the_surplus_has_a_place() -> None:
    answer = two_halves(1, dear=False)
    assert not answer.victims
    assert answer.refused == "impossible"
    assert answer.explanation.proven


def test_a_job_that_loses_more_moves_instead() -> None:
    answer = two_halves(1, dear=True)
    assert moves(answer) == {"dear": [("0", 3)]}
    assert answer.explanation.proven
