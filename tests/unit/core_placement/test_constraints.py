"""Constraints of each action on its preemptor, and on a set of victims as a whole."""

import pytest
from tests.builders import GIB, HOUR, Sketch, group, requested_unit
from tests.unit.core_placement.tables import AT_MOST_ONE_WEB, preemptor_of_another_project, two_full_nodes
from tests.unit.core_placement.test_revalidate import policy

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job
from bailiff_core.model.units import Unit, whole_job
from bailiff_core.placement import GangPlacement, StepBudget
from bailiff_core.queue.order import shares_now
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.constraints import Constraints, action_not_permitted


@pytest.fixture
def sketch() -> Sketch:
    return two_full_nodes()


@pytest.fixture
def preemptor(sketch: Sketch) -> Job:
    return preemptor_of_another_project(sketch)


def why(sketch: Sketch, preemptor: Job, action: Action) -> str | None:
    snapshot = current_snapshot(sketch.state)
    return action_not_permitted(snapshot, shares_now(snapshot), requested_unit(preemptor), action)


def terms(sketch: Sketch, preemptor: Job, action: Action, *earlier: Unit) -> Constraints:
    snapshot = current_snapshot(sketch.state)
    return Constraints(snapshot, shares_now(snapshot), requested_unit(preemptor), action, earlier)


def test_without_projects_there_is_nothing_to_reclaim(sketch, preemptor):
    assert why(sketch, preemptor, "reclaim") == "the policy has no projects to reclaim from"


def test_no_job_is_relocated_for_a_job_above_its_limit(sketch, preemptor):
    sketch.state.policy = policy({"name": "b", "limit": {"gpus": 3}}, preemption={"max_migrations": None})
    assert "limit of 3 GPUs" in (why(sketch, preemptor, "consolidate") or "")


def test_no_job_is_evicted_for_a_non_preemptible_job_above_its_quota(sketch, preemptor):
    preemptor.preemptible = False
    sketch.state.policy = policy({"name": "b", "quota": {"gpus": 3}})
    assert "quota of 3 GPUs" in (why(sketch, preemptor, "preempt") or "")


def test_a_reclaimed_project_does_not_get_resources_back_by_another_action(sketch, preemptor):
    rules = {"cooldown": {"project": "1h"}}
    sketch.state.policy = policy({"name": "b", "quota": {"gpus": 0}}, protections=rules, preemption={"max_migrations": None})
    sketch.state.reclaimed_at["b"] = sketch.state.now - HOUR // 2
    assert "may not borrow during its cooldown" in (why(sketch, preemptor, "consolidate") or "")
    assert terms(sketch, preemptor, "preempt").limited
    assert not terms(sketch, preemptor, "reclaim").limited


def test_victims_of_earlier_preemptors_of_the_batch_count(sketch, preemptor):
    sketch.state.policy = policy(protections=AT_MOST_ONE_WEB)
    one, two = (whole_job(sketch.state.jobs[name]) for name in ("one", "two"))
    assert terms(sketch, preemptor, "preempt").violation([two]) is None
    assert terms(sketch, preemptor, "preempt", one).violation([two]) is not None


def test_under_reclaim_a_budget_holds_as_well(sketch, preemptor):
    sketch.state.policy = policy({"name": "a"}, {"name": "b", "quota": {"gpus": 8}}, protections=AT_MOST_ONE_WEB)
    both = [whole_job(sketch.state.jobs[name]) for name in ("one", "two")]
    assert (terms(sketch, preemptor, "reclaim").violation(both) or "").startswith("budget 'web'")


def test_reclaim_does_not_take_what_is_placed_again(sketch, preemptor):
    sketch.state.policy = policy({"name": "a", "quota": {"gpus": 8}}, {"name": "b", "quota": {"gpus": 8}})
    both = [whole_job(sketch.state.jobs[name]) for name in ("one", "two")]
    assert terms(sketch, preemptor, "reclaim").violation(both) is not None
    assert terms(sketch, preemptor, "reclaim").violation(both, []) is None


@pytest.mark.parametrize(
    ("about", "preemptible", "capped", "constrained"),
    [
        ({}, True, False, False),
        ({"limit": {"gpus": 4}}, True, False, True),
        ({"quota": {"gpus": 4}}, True, False, False),  # it may use more than its quota
        ({"quota": {"gpus": 4}}, False, False, True),
        ({"quota": {"gpus": 4}}, True, True, True),
        (None, False, False, False),  # without projects there is no quota
    ],
)
@pytest.mark.parametrize("by_bytes", [True, False])
def test_a_request_for_bytes_of_a_gpu_is_counted_where_it_is_placed_if_anything_bounds_it(
    sketch, about, preemptible, capped, constrained, by_bytes
):
    """Bytes are a different part of each model."""
    sketch.state.policy = policy(*([] if about is None else [{"name": "b", **about}]), preemption={"cap_at_fair_share": capped})
    asked = group(gpu_share_bytes=GIB) if by_bytes else group(gpu_share_milli=500)
    job = sketch.job("asks", asked, priority=75, preemptible=preemptible)
    job.project = "b"
    made = terms(sketch, job, "preempt")
    assert made.constrains_placement is (by_bytes and constrained)
    assert made.has_limits is made.constrains_placement
    assert not made.limited


def test_the_place_of_a_preemptor_is_a_reservation(sketch, preemptor):
    sketch.node("free", gpus=4)
    place = terms(sketch, preemptor, "preempt").place(StepBudget(100))
    assert isinstance(place, GangPlacement)
    assert (place.future, [task.node for task in place.tasks]) == (True, [2])


@pytest.mark.parametrize(("victims", "rejected"), [(["one", "two"], False), (["one"], True), ([], True)])
def test_a_set_that_keeps_the_preemptor_within_its_limit_is_not_rejected(sketch, preemptor, victims, rejected):
    """Both jobs and the preemptor are of one project, whose limit is that of the preemptor alone."""
    sketch.state.policy = policy({"name": "a", "limit": {"gpus": 4}})
    preemptor.project = "a"
    made = terms(sketch, preemptor, "preempt")
    assert made.limited
    assert made.rejects([whole_job(sketch.state.jobs[name]) for name in victims]) is rejected
