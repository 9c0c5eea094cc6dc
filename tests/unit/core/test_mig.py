"""MIG devices: requested by profile, counted by weight, preempted, and gone when the card is partitioned differently."""

from collections.abc import Callable
from fractions import Fraction

import pytest
from tests.log_builder import Story, policy
from tests.mig_kit import joins, mig, on

from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.mig import listed_devices, mig_gpu_milli, usable_gpu_milli
from bailiff_core.model.scheduling_class import scheduling_class_of
from bailiff_core.placement import could_ever_fit
from bailiff_core.quota.usage import Usage

MIXED = "2xH100-80GB,2xH100-80GB:3g.40gb,2xH100-80GB:1g.10gb"
TEAMS = [{"name": "vision", "quota": {"gpus": 1}}, {"name": "speech", "quota": {"gpus": 1}}]


def test_a_job_gets_a_device_of_the_profile_that_it_asks_for_and_no_other(story: Story) -> None:
    joins(story, "n1", MIXED)
    story.runs("small", mig("1g.10gb"))
    story.runs("large", mig("3g.40gb", each=2))
    story.runs("whole", gpus=2)
    assert on(story, "small") == ["MIG-sim-n1-3-1g.10gb-0"]
    assert on(story, "large") == ["MIG-sim-n1-2-3g.40gb-0", "MIG-sim-n1-2-3g.40gb-1"]
    assert on(story, "whole") == ["GPU-sim-n1-0", "GPU-sim-n1-1"]
    story.submit("too-large", mig("3g.40gb"))
    assert "needs 1 task of 1 3g.40gb MIG device" in story.expect("JobPending", job="too-large").reason


def test_whole_gpus_and_parts_of_them_never_come_from_mig_devices(story: Story) -> None:
    joins(story, "n1", "1xH100-80GB,7xH100-80GB:1g.10gb")
    story.submit("two", gpus=2)
    assert "fewer than 2 usable GPUs" in story.expect("JobPending", job="two").reason
    story.submit("one", gpus=1)
    story.submit("part", TaskGroup(gpu_share_bytes=5 << 30))
    story.expect("JobPending", job="part")
    assert on(story, "one") == ["GPU-sim-n1-0"]


def test_a_profile_that_no_card_has_can_never_run(story: Story) -> None:
    joins(story, "n1", MIXED)
    demand = JobDemand(job="x", tasks=(mig("7g.80gb"),))
    assert "1 node has no usable 7g.80gb MIG device" in str(could_ever_fit(story.state, demand))
    assert could_ever_fit(story.state, JobDemand(job="x", tasks=(mig("1g.10gb", count=2),))) is None
    both = JobDemand(job="x", tasks=(TaskGroup(gpu_milli=1000, mig_profile="1g.10gb"),))
    assert "leave one out" in str(could_ever_fit(story.state, both))


@pytest.mark.parametrize(
    ("profile", "milli"),
    [("7g.80gb", 1000), ("3g.40gb", Fraction(3000, 7)), ("1g.10gb+me", Fraction(1000, 7)), ("1c.3g.40gb", Fraction(1000, 7))],
)
def test_without_a_weight_a_profile_counts_as_its_slices_of_seven(profile: str, milli: int | Fraction) -> None:
    assert mig_gpu_milli(profile, {}) == milli
    assert mig_gpu_milli(profile, {profile: 600}) == 600


def test_seven_slices_of_a_card_are_one_gpu_of_quota(tell: Callable[..., Story]) -> None:
    story = tell(policy(projects=TEAMS))
    joins(story, "n1", "7xH100-80GB:1g.10gb,1xH100-80GB")
    story.runs("job", mig("1g.10gb", count=7), project="vision")
    assert Usage.of(story.state).allocated("vision").gpu_milli == 1000
    assert Usage.of(story.state).total.gpu_milli == 2000
    assert usable_gpu_milli(story.state.nodes[0], story.state.policy) == 2000


def test_another_weight_counts_at_once_for_running_jobs_and_for_the_capacity(tell: Callable[..., Story]) -> None:
    story = tell(policy(projects=TEAMS))
    joins(story, "n1", "2xH100-80GB:3g.40gb")
    story.runs("job", mig("3g.40gb"), project="vision")
    weighted = policy(projects=TEAMS, devices={"mig_weights": {"3g.40gb": 500}})
    story.apply_policy(weighted)
    story.submit("other", mig("3g.40gb"), project="speech")
    usage = story.state.indices.snapshot.usage  # type: ignore[attr-defined]
    assert (usage.allocated("vision").gpu_milli, usage.total.gpu_milli) == (500, 1000)
    assert Usage.of(story.state).allocated("vision") == usage.allocated("vision")


def test_a_limit_counts_the_weight(tell: Callable[..., Story]) -> None:
    story = tell(policy(projects=[{"name": "vision", "limit": {"gpus": 0.5}}]))
    joins(story, "n1", "7xH100-80GB:1g.10gb")
    for name in ("a", "b", "c"):
        story.runs(name, mig("1g.10gb"), project="vision")
    story.submit("d", mig("1g.10gb"), project="vision")
    story.expect("JobPending", job="d")


def test_it_is_preempted_restarts_and_its_weight_is_what_the_victim_costs(story: Story) -> None:
    joins(story, "n1", "2xH100-80GB:3g.40gb,1xH100-80GB")
    story.runs("train", mig("3g.40gb", count=2))
    story.runs("untouched", gpus=1)
    story.submit("serve", mig("3g.40gb"), cls="inference", after=60_000_000)
    story.propose()
    decided = story.expect("PreemptionDecided")
    assert [choice.job for choice in decided.victims] == ["train"]
    assert [(each.priority, each.gpu_milli) for each in decided.explanation.cost.classes] == [(50, 857)]
    story.yields("train")
    story.started("serve")
    assert story.phases() == {"train": "pending", "untouched": "running", "serve": "running"}
    requeued = next(iter(story.decisions("JobRequeued")))
    assert requeued.lost_gpu_ms == 857 * 120_000 // 1000  # a minute of work, and the cost of a restart
    story.ends("serve")
    story.expect("JobPlaced", job="train", attempt=2)


def test_the_cheaper_victim_is_the_one_with_the_smaller_weight(story: Story) -> None:
    """By number of devices both cost the same."""
    story.apply_policy(policy(devices={"mig_weights": {"1g.10gb": 100}}))
    joins(story, "n1", "1xH100-80GB:1g.10gb")
    joins(story, "n2", "1xH100-80GB:1g.10gb,1xH100-80GB")
    story.runs("cheap", mig("1g.10gb"))
    story.runs("dear", mig("1g.10gb"), TaskGroup(gpu_milli=1000))
    story.submit("serve", mig("1g.10gb"), cls="inference")
    story.propose()
    decided = story.expect("PreemptionDecided")
    assert [choice.job for choice in decided.victims] == ["cheap"]
    assert decided.explanation.proven


def test_a_card_that_is_partitioned_differently_loses_its_devices_by_record(story: Story) -> None:
    joins(story, "n1", "2xH100-80GB:3g.40gb,1xH100-80GB")
    story.runs("train", mig("3g.40gb"))
    joins(story, "n1", "7xH100-80GB:1g.10gb,1xH100-80GB")
    story.expect("EvictionDecided", job="train", cause="device")
    gone = story.state.nodes[0].devices[0]
    assert (gone.gone, gone.healthy, gone.fault) == (True, False, "its card is partitioned differently now")
    assert [each.profile for each in listed_devices(story.state.nodes[0])] == ["3g.40gb", "1g.10gb", "", *["1g.10gb"] * 6]
    story.yields("train", code=143)
    assert story.phases() == {"train": "pending"}
    assert story.job("train").failures == 0, "not a failure of the job"
    assert all(each.profile != "3g.40gb" for each in listed_devices(story.state.nodes[0]))
    story.runs("other", mig("1g.10gb"))
    assert "no usable 3g.40gb MIG device" in str(could_ever_fit(story.state, JobDemand(job="x", tasks=(mig("3g.40gb"),))))
    joins(story, "n1", "2xH100-80GB:3g.40gb,7xH100-80GB:1g.10gb")
    story.wait(10_000_000)  # the restart backoff
    assert on(story, "train") == ["MIG-sim-n1-0-3g.40gb-0"]


def test_numbers_of_devices_that_are_gone_are_used_again(story: Story) -> None:
    for boot in range(1, 12):
        joins(story, "n1", "7xH100-80GB:1g.10gb" if boot % 2 else "3xH100-80GB:2g.20gb", boot)
    assert len(story.state.nodes[0].devices) <= 10


def test_a_whole_card_that_is_partitioned_is_gone_too_and_comes_back(story: Story) -> None:
    joins(story, "n1", "2xH100-80GB")
    story.runs("train", gpus=2)
    joins(story, "n1", "1xH100-80GB,2xH100-80GB:3g.40gb")
    story.expect("EvictionDecided", job="train", cause="device")
    story.yields("train", code=143)
    story.wait(10_000_000)  # the restart backoff
    story.expect("JobPending", job="train")
    joins(story, "n1", "2xH100-80GB")
    story.expect("JobPlaced", job="train")
    assert all(not each.gone for each in listed_devices(story.state.nodes[0]))


def test_a_report_on_a_device_that_is_gone_does_not_bring_it_back(story: Story) -> None:
    joins(story, "n1", "2xH100-80GB:3g.40gb")
    story.breaks("n1", 0)
    joins(story, "n1", "1xH100-80GB:7g.80gb")
    assert story.state.nodes[0].devices[1].gone
    story.repaired("n1", 1)
    assert not story.state.nodes[0].devices[1].healthy


def test_the_state_survives_a_snapshot(story: Story) -> None:
    joins(story, "n1", "2xH100-80GB:3g.40gb,2xH100-80GB/nvlink2")
    assert to_snapshot(from_snapshot(to_snapshot(story.state))) == to_snapshot(story.state)


def test_a_request_without_mig_or_island_has_the_bytes_and_the_class_that_it_always_had() -> None:
    demand = JobDemand(job="x", tasks=(TaskGroup(gpu_milli=1000),))
    assert demand.to_data() == {"job": "x", "tasks": [{"gpu_milli": 1000}]}
    assert scheduling_class_of(demand) == "0f5e6ea92ad5a777"
    classes = [
        scheduling_class_of(JobDemand(job="x", tasks=(mig("1g.10gb"),))),
        scheduling_class_of(JobDemand(job="x", tasks=(mig("2g.20gb"),))),
        scheduling_class_of(demand.model_copy(update={"placement": "prefer nvlink"})),
        scheduling_class_of(demand),
    ]
    assert len(set(classes)) == 4
