"""What a verb asks of its asker, and of a set of victims as a whole: each line of it."""

import pytest
from tests.builders import HOUR, Sketch, asking, group
from tests.unit.core_placement.test_check import policy

from bailiff_core.model.policy import Verb
from bailiff_core.model.pool import Job
from bailiff_core.model.units import Unit, whole
from bailiff_core.queue.order import shares_now
from bailiff_core.scene import scene_of
from bailiff_core.victims.terms import Terms, why_not_ask

WEB = {"budgets": [{"name": "web", "labels": {"app": "web"}, "most": 1}]}


@pytest.fixture
def sketch() -> Sketch:
    """Two nodes of four GPUs, which `one` and `two` of project `a` hold."""
    made = Sketch()
    for node, name in (("m", "one"), ("n", "two")):
        made.node(node, gpus=4)
        job = made.running(name, node, range(4))
        job.project = "a"
        job.demand = job.demand.model_copy(update={"labels": {"app": "web"}})
    return made


@pytest.fixture
def asker(sketch: Sketch) -> Job:
    job = sketch.job("asker", group(gpus=4), priority=75)
    job.project = "b"
    return job


def why(sketch: Sketch, asker: Job, verb: Verb) -> str | None:
    scene = scene_of(sketch.pool)
    return why_not_ask(scene, shares_now(scene), asking(asker), verb)


def terms(sketch: Sketch, asker: Job, verb: Verb, *earlier: Unit) -> Terms:
    scene = scene_of(sketch.pool)
    return Terms(scene, shares_now(scene), asking(asker), verb, earlier)


def test_without_projects_there_is_nothing_to_reclaim(sketch, asker):
    assert why(sketch, asker, "reclaim") == "there are no projects to reclaim from"


def test_nobody_moves_for_a_job_above_its_limit(sketch, asker):
    sketch.pool.policy = policy({"name": "b", "limit": {"gpus": 3}}, preemption={"most_moved": -1})
    assert "limit of 3 GPUs" in (why(sketch, asker, "consolidate") or "")


def test_nobody_leaves_for_firm_work_above_its_quota(sketch, asker):
    asker.preemptible = False
    sketch.pool.policy = policy({"name": "b", "quota": {"gpus": 3}})
    assert "quota of 3 GPUs" in (why(sketch, asker, "preempt") or "")


def test_who_was_reclaimed_from_does_not_get_it_back_by_another_verb(sketch, asker):
    rules = {"cooldown": {"project": "1h"}}
    sketch.pool.policy = policy({"name": "b", "quota": {"gpus": 0}}, protections=rules, preemption={"most_moved": -1})
    sketch.pool.reclaimed_at["b"] = sketch.pool.now - HOUR // 2
    assert "does not borrow back yet" in (why(sketch, asker, "consolidate") or "")
    assert terms(sketch, asker, "preempt").limited
    assert not terms(sketch, asker, "reclaim").limited


def test_who_leaves_for_earlier_askers_of_the_batch_counts(sketch, asker):
    sketch.pool.policy = policy(protections=WEB)
    one, two = (whole(sketch.pool.jobs[name]) for name in ("one", "two"))
    assert terms(sketch, asker, "preempt").forbids([two]) is None
    assert terms(sketch, asker, "preempt", one).forbids([two]) is not None


def test_under_reclaim_a_budget_holds_as_well(sketch, asker):
    sketch.pool.policy = policy({"name": "a"}, {"name": "b", "quota": {"gpus": 8}}, protections=WEB)
    both = [whole(sketch.pool.jobs[name]) for name in ("one", "two")]
    assert (terms(sketch, asker, "reclaim").forbids(both) or "").startswith("budget 'web'")


def test_reclaim_does_not_take_what_is_placed_again(sketch, asker):
    sketch.pool.policy = policy({"name": "a", "quota": {"gpus": 8}}, {"name": "b", "quota": {"gpus": 8}})
    both = [whole(sketch.pool.jobs[name]) for name in ("one", "two")]
    assert terms(sketch, asker, "reclaim").forbids(both) is not None
    assert terms(sketch, asker, "reclaim").forbids(both, []) is None
