"""A new policy evicts no job, unless it was applied with enforcement."""

import pytest
from tests.unit.core_protections.kit import rules

from bailiff_core.records import facts


def projects(**limits):
    """Team a with these bounds, team b without any; both below lab."""
    return [
        {"name": "lab", "quota": {"gpus": 16}, **limits.get("lab", {})},
        {"name": "a", "parent": "lab", "quota": {"gpus": 8}, **limits.get("a", {})},
        {"name": "b", "parent": "lab", "quota": {"gpus": 8}},
    ]


def enforced(story, enforce=True, **limits):
    policy = rules(projects=projects(**limits), preemption={"actions": ["allocate"]})
    return story.cycle(facts.PolicyApplied(policy=policy.complete(), request=story.request(), enforce=enforce))


@pytest.fixture
def story(tell):
    story = tell(rules(projects=projects(), preemption={"actions": ["allocate"]}))
    story.node("n1")
    return story


def leaving(story) -> list[str]:
    return [name for name, phase in story.phases().items() if phase == "evicting"]


def test_a_policy_without_enforcement_evicts_no_job(story):
    story.runs("x", gpus=4, project="a")
    enforced(story, enforce=False, a={"limit": {"gpus": 0}})
    assert story.phases() == {"x": "running"}
    story.submit("y", gpus=1, project="b")
    assert story.phases() == {"x": "running", "y": "starting"}, "nor in a later turn"


def test_jobs_within_the_new_policy_keep_running(story):
    story.runs("x", gpus=4, project="a")
    enforced(story, a={"limit": {"gpus": 4}})
    assert story.phases() == {"x": "running"}


def test_over_a_limit_lower_priority_is_evicted_first_and_then_the_younger_job(story):
    for name, cls in (("old", "train"), ("study", "interactive"), ("young", "train")):
        story.runs(name, gpus=2, project="a", cls=cls)
    story.runs("theirs", gpus=2, project="b")
    enforced(story, a={"limit": {"gpus": 4}})
    eviction = story.expect("EvictionDecided", job="young", cause="policy")
    assert eviction.reason == "the policy is enforced: project a uses 6 of its limit of 4 GPUs"
    assert leaving(story) == ["young"]
    story.yields("young")
    assert story.job("young").phase == "pending"


def test_a_limit_above_counts_all_that_lies_below_it(story):
    story.runs("x", gpus=4, project="a")
    story.runs("y", gpus=4, project="b")
    enforced(story, lab={"limit": {"gpus": 4}})
    assert leaving(story) == ["y"]


def test_a_job_whose_eviction_proves_unnecessary_keeps_running(story):
    story.runs("large", gpus=4, project="a", cls="interactive")
    story.runs("small", gpus=1, project="a")
    enforced(story, a={"limit": {"gpus": 1}})
    assert leaving(story) == ["large"], "small went first, but its leaving was of no use"


def test_of_two_jobs_of_which_one_may_keep_running_it_is_the_one_of_higher_priority(story):
    story.runs("large", gpus=4, project="a", cls="interactive")
    story.runs("study", gpus=2, project="a", cls="interactive")
    story.runs("batch", gpus=2, project="a")
    enforced(story, a={"limit": {"gpus": 3}})
    assert leaving(story) == ["large", "batch"], "without `large` either of the others fits"


def test_surplus_is_evicted_one_by_one_before_any_core(story):
    story.runs("elastic", gpus=1, tasks=4, min_tasks=1, project="a", cls="interactive")
    story.started("elastic")
    assert len(story.job("elastic").tasks) == 4
    enforced(story, a={"limit": {"gpus": 2}})
    assert story.expect("EvictionDecided", job="elastic").tasks == "2-3"
    assert story.job("elastic").phase == "running"


def test_non_preemptible_jobs_are_evicted_only_where_they_are_over_quota_themselves(story):
    story.runs("batch", gpus=4, project="a")
    story.runs("serve", gpus=2, project="a", cls="inference")
    story.runs("build", gpus=2, project="a", cls="build")
    enforced(story, a={"quota": {"gpus": 2}})
    eviction = story.expect("EvictionDecided", job="build", cause="policy")
    assert eviction.reason == "the policy is enforced: project a uses 4 of its quota for work that is not preemptible of 2 GPUs"
    assert leaving(story) == ["build"]


def test_a_reservation_is_dropped_before_any_running_job_is_evicted(story):
    story.runs("done", gpus=4, project="b")
    story.runs("runs", gpus=4, project="a")
    story.submit("waits", gpus=4, project="a", cls="interactive")
    story.exits("done")
    assert story.job("waits").phase == "reserved"
    enforced(story, a={"limit": {"gpus": 4}})
    story.expect("ReservationDropped", job="waits", reason="policy")
    assert leaving(story) == []


def test_enforcement_runs_once_and_later_jobs_are_checked_by_admission(story):
    story.runs("x", gpus=4, project="a")
    enforced(story, a={"limit": {"gpus": 0}})
    assert not story.state.enforcing
    story.yields("x")
    assert [record.job for record in story.decisions("EvictionDecided")] == ["x"]


def test_enforcement_interrupted_by_a_dead_writer_is_continued(story):
    for name in ("x", "y"):
        story.runs(name, gpus=4, project="a")
    enforced(story, a={"limit": {"gpus": 0}})
    decided = [number for number, record in enumerate(story.records) if type(record.data).__name__ == "EvictionDecided"]
    assert len(decided) == 2
    other = story.resumed(decided[0] + 1)
    other.restart()
    assert leaving(other) == ["x", "y"]
    other.holds()


def moving(tell, asks=8, kept=4, **low):
    """`low` is to leave n1 for `high`, and all of n2 is kept for it."""
    story = tell(rules(projects=projects()))
    story.node("n1", gpus=8)
    story.runs("low", project="a", **low)
    story.submit("high", gpus=asks, project="a", cls="interactive")
    story.node("n2", gpus=kept)
    story.propose()
    assert story.job("low").reservation
    return story


def test_the_reservation_of_a_relocated_job_is_dropped_before_anything_else(tell):
    story = moving(tell, gpus=4)
    enforced(story, a={"limit": {"gpus": 8}})
    story.expect("ReservationDropped", job="low", reason="policy", tasks="")
    assert (story.job("low").reservation, story.state.nodes[1].reserved.devices) == ([], 0)
    assert story.job("high").phase == "reserved"


def test_a_reservation_within_the_limit_is_kept(tell):
    story = moving(tell, gpus=4)
    enforced(story, a={"limit": {"gpus": 12}})
    assert story.job("low").reservation


def test_a_reservation_of_surplus_within_the_limit_is_kept_while_its_job_continues(tell):
    story = moving(tell, asks=4, kept=2, gpus=2, tasks=4, min_tasks=1)
    assert story.job("low").phase == "running"
    enforced(story, a={"limit": {"gpus": 8}})
    story.expect("ReservationDropped", job="low", reason="policy", tasks="2")
    assert story.job("low").reservation == []
    assert story.members("low", "running") == [0, 1, 2, 3]
