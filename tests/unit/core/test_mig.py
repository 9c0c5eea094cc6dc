"""MIG devices: requested by profile, counted by weight, preempted, and gone when the card is partitioned differently."""

from collections.abc import Callable

from tests.kits.log_builder import Story, policy
from tests.kits.mig import joins, mig, on
from tests.kits.story_script import stories

from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.mig import listed_devices, usable_gpu_milli
from bailiff_core.placement import could_ever_fit
from bailiff_core.quota.usage import Usage

test_mig_in_stories = stories("""
a job gets a device of the profile that it asks for and no other
    joins n1 2xH100-80GB,2xH100-80GB:3g.40gb,2xH100-80GB:1g.10gb; runs small: 1g.10gb; runs large: 3g.40gb, gpu_devices 2
    runs whole: 2 gpus; small.gpus = MIG-sim-n1-3-1g.10gb-0; large.gpus = MIG-sim-n1-2-3g.40gb-0 MIG-sim-n1-2-3g.40gb-1
    whole.gpus = GPU-sim-n1-0 GPU-sim-n1-1; submit too-large: 3g.40gb
    => JobPending too-large reason~"needs 1 task of 1 3g.40gb MIG device"

whole gpus and parts of them never come from mig devices
    joins n1 1xH100-80GB,7xH100-80GB:1g.10gb; submit two: 2 gpus; => JobPending two reason~"fewer than 2 usable GPUs"
    submit one: 1 gpu; submit part: 5GiB of a gpu; => JobPending part; one.gpus = GPU-sim-n1-0

a report on a device that is gone does not bring it back
    joins n1 2xH100-80GB:3g.40gb; breaks n1 0; joins n1 1xH100-80GB:7g.80gb; nodes.0.devices.1.gone = true
    repaired n1 1; nodes.0.devices.1.healthy = false

a limit counts the weight
    rules {projects: [{name: vision, limit: {gpus: 0.5}}]}; joins n1 7xH100-80GB:1g.10gb; runs a: 1g.10gb, in vision
    runs b: 1g.10gb, in vision; runs c: 1g.10gb, in vision; submit d: 1g.10gb, in vision; => JobPending d

it is preempted, restarts, and its weight is what the victim costs
    joins n1 2xH100-80GB:3g.40gb,1xH100-80GB; runs train: 2 x 3g.40gb; runs untouched: 1 gpu; +1m
    submit serve: inference, 3g.40gb
    propose
    => PreemptionDecided victims.*.job=train explanation.cost.classes.*.priority=50 explanation.cost.classes.*.gpu_milli=857
    yields train; => JobRequeued lost_gpu_ms=102840; started serve; train is pending; untouched is running; serve is running
    ends serve; => JobPlaced train attempt=2  # a minute of work, and the cost of a restart

the cheaper victim is the one with the smaller weight, although both have as many devices
    policy {devices: {mig_weights: {1g.10gb: 100}}}; joins n1 1xH100-80GB:1g.10gb; joins n2 1xH100-80GB:1g.10gb,1xH100-80GB
    runs cheap: 1g.10gb; runs dear: 1g.10gb | 1 gpu; submit serve: inference, 1g.10gb; propose
    => PreemptionDecided victims.*.job=cheap explanation.proven=true

a whole card that is partitioned is gone, too, and comes back
    joins n1 2xH100-80GB; runs train: 2 gpus; joins n1 1xH100-80GB,2xH100-80GB:3g.40gb; => EvictionDecided train cause=device
    yields train code=143; => JobPending train; joins n1 2xH100-80GB; => JobPlaced train
""")


MIXED = "2xH100-80GB,2xH100-80GB:3g.40gb,2xH100-80GB:1g.10gb"
TEAMS = [{"name": "vision", "quota": {"gpus": 1}}, {"name": "speech", "quota": {"gpus": 1}}]


def test_a_profile_that_no_card_has_can_never_run(story: Story) -> None:
    joins(story, "n1", MIXED)
    demand = JobDemand(job="x", tasks=(mig("7g.80gb"),))
    assert "1 node has no usable 7g.80gb MIG device" in str(could_ever_fit(story.state, demand))
    assert could_ever_fit(story.state, JobDemand(job="x", tasks=(mig("1g.10gb", count=2),))) is None
    both = JobDemand(job="x", tasks=(TaskGroup(gpu_milli=1000, mig_profile="1g.10gb"),))
    assert "leave one out" in str(could_ever_fit(story.state, both))


def test_seven_slices_of_a_card_are_one_gpu_of_quota(tell: Callable[..., Story]) -> None:
    story = tell(policy(projects=TEAMS))
    joins(story, "n1", "7xH100-80GB:1g.10gb,1xH100-80GB")
    story.runs("job", mig("1g.10gb", count=7), project="vision")
    assert Usage.of(story.state).allocated("vision").gpu_milli == 1000
    usage = Usage.of(story.state)
    assert (usage.schedulable.gpu_milli, usage.total.gpu_milli) == (2000, 1000), "nobody asks for the whole GPU"
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


def test_the_state_survives_a_snapshot(story: Story) -> None:
    joins(story, "n1", "2xH100-80GB:3g.40gb,2xH100-80GB/nvlink2")
    assert to_snapshot(from_snapshot(to_snapshot(story.state))) == to_snapshot(story.state)
