"""Devices that are not allocated: quarantined and broken ones; and jobs that use more than their share of one."""

import pytest
from tests.log_builder import HOUR, Story, policy

from bailiff_core.model.demand import TaskGroup
from bailiff_core.records import facts


def test_a_quarantined_device_is_not_allocated_until_it_is_cleared(story: Story) -> None:
    story.node("n1", gpus=2)
    story.quarantined("n1", 0)
    story.submit("two", gpus=2)
    story.expect("JobPending", job="two")
    story.submit("one", gpus=1)
    story.expect("JobPlaced", job="one")
    assert story.job("one").tasks[0].devices == 0b10
    story.started("one")
    story.ends("one")
    story.cleared("n1", 0)
    story.expect("JobPlaced", job="two")


def test_a_quarantine_after_an_eviction_releases_the_victim_and_moves_the_reservation(story: Story) -> None:
    story.node("n1", gpus=1)
    story.runs("low", gpus=1)
    story.submit("high", gpus=1, cls="interactive")
    story.propose()
    story.begin("low")
    story.staged("low", "term_sent")
    story.exits("low", 143)
    story.quarantined("n1", 0, job="low")
    story.expect("ReservationDropped", job="high", reason="resources-lost")
    story.releases("low")
    story.expect("JobRequeued", job="low")
    assert {name: story.job(name).phase for name in ("low", "high")} == {"low": "pending", "high": "pending"}
    device = story.state.nodes[0].devices[0]
    assert (device.fault_job, device.fault_since) == ("low", story.time)
    story.node("n2", gpus=1)
    story.expect("JobPlaced", job="high")
    story.cleared("n1", 0)
    story.expect("JobPlaced", job="low")
    assert (device.fault, device.fault_job, device.fault_since) == ("", None, None)


def test_a_healthy_device_stays_in_quarantine_with_its_reason(story: Story) -> None:
    story.node("n1", gpus=2)
    story.breaks("n1", 1)
    story.quarantined("n1", 1)
    story.cycle(facts.DeviceHealthy(node="n1", device=story.state.nodes[0].devices[1].id))
    device = story.state.nodes[0].devices[1]
    assert (device.healthy, device.fault) == (True, "not-free")
    story.submit("two", gpus=2)
    story.expect("JobPending", job="two")
    story.cleared("n1", 1)
    story.expect("JobPlaced", job="two")


def test_an_agent_that_starts_anew_makes_no_device_clean(story: Story) -> None:
    story.node("n1", gpus=1)
    story.quarantined("n1", 0)
    story.node("n1", gpus=1, boot=2)
    story.submit("job", gpus=1)
    story.expect("JobPending", job="job")
    assert story.state.nodes[0].devices[0].fault == "not-free"


def test_a_job_on_a_broken_device_is_evicted_and_has_not_failed(story: Story) -> None:
    story.node("n1", gpus=2)
    story.runs("job", gpus=1)
    number = story.job("job").tasks[0].devices.bit_length() - 1
    story.breaks("n1", number)
    story.expect("EvictionDecided", job="job", cause="device")
    story.begin("job")
    story.staged("job", "term_sent")
    story.exits("job", 1)
    again = story.releases("job")
    requeued = story.expect("JobRequeued", job="job", outcome="lost", cause="device")
    assert (story.job("job").failures, story.job("job").evictions) == (0, 0)
    assert requeued in again
    story.wait(requeued.not_before - story.time)
    assert story.job("job").tasks[0].devices == 0b11 ^ (1 << number)


def test_a_task_that_ends_before_its_device_is_reported_broken_has_not_failed(story: Story) -> None:
    story.node("n1", gpus=1)
    story.runs("job", gpus=1)
    story.exits("job", 1)
    story.breaks("n1", 0)
    story.releases("job")
    story.expect("JobRequeued", job="job", outcome="lost")
    story.repaired("n1", 0)
    assert story.state.nodes[0].devices[0].fault == ""


def test_an_elastic_job_continues_without_the_member_on_a_broken_device(story: Story) -> None:
    story.node("n1", gpus=2)
    story.runs("job", gpus=1, tasks=2, min_tasks=1)
    lost = story.job("job").tasks[1]
    story.breaks("n1", lost.devices.bit_length() - 1)
    story.expect("EvictionDecided", job="job", cause="device", tasks="1")
    assert story.job("job").phase == "running"


def test_a_device_that_a_new_agent_reports_as_broken_is_evicted_too(story: Story) -> None:
    story.node("n1", gpus=1)
    story.runs("job", gpus=1)
    story.node("n1", gpus=1, boot=2, sick=[0])
    story.expect("EvictionDecided", job="job", cause="device")


def over_share(story: Story) -> list[object]:
    job = story.at("greedy", 0)
    return list(story.cycle(facts.ShareExceeded(**job, device="GPU-n1-0", used_bytes=50 << 30, share_bytes=40 << 30)))


def test_a_job_over_its_share_is_recorded_and_keeps_running(story: Story) -> None:
    story.node("n1", gpus=1)
    story.runs("greedy", TaskGroup(gpu_share_milli=500))
    assert over_share(story) == []
    assert story.job("greedy").phase == "running"


def test_a_job_over_its_share_is_evicted_where_the_policy_says_so() -> None:
    story = Story(policy(devices={"over_share": "evict"}))
    story.node("n1", gpus=1)
    story.runs("greedy", TaskGroup(gpu_share_milli=500))
    story.runs("modest", TaskGroup(gpu_share_milli=500))
    over_share(story)
    story.expect("EvictionDecided", job="greedy", cause="over-share")
    assert story.job("modest").phase == "running"


def test_a_fault_dates_from_its_first_report(story: Story) -> None:
    story.node("n1", gpus=2)
    story.breaks("n1", 0)
    first = story.state.nodes[0].devices[0].fault_since
    story.wait(HOUR)
    story.breaks("n1", 0)
    assert story.state.nodes[0].devices[0].fault_since == first, "it has been broken all the time"
    story.repaired("n1", 0)
    story.wait(HOUR)
    story.breaks("n1", 0)
    assert story.state.nodes[0].devices[0].fault_since == story.time


def test_a_device_that_breaks_while_quarantined_is_at_fault_since_its_quarantine(story: Story) -> None:
    story.node("n1", gpus=2)
    story.quarantined("n1", 0)
    first = story.state.nodes[0].devices[0].fault_since
    story.wait(HOUR)
    story.breaks("n1", 0)
    assert story.state.nodes[0].devices[0].fault_since == first


@pytest.mark.parametrize("minimum", [1, 2, 3])
@pytest.mark.parametrize("broken", [1, 2, 3])
def test_the_job_is_evicted_whole_where_the_tasks_on_healthy_devices_are_too_few(story: Story, minimum: int, broken: int) -> None:
    story.node("n1", gpus=3)
    story.runs("gang", gpus=1, tasks=3, min_tasks=minimum)
    devices = story.state.nodes[0].devices[:broken]
    story.cycle(*(facts.DeviceUnhealthy(node="n1", device=device.id, reason="xid", code=79) for device in devices))
    evicted = story.expect("EvictionDecided", job="gang", cause="device")
    assert bool(evicted.tasks) is (0 < 3 - broken >= minimum)
