"""Devices that are not allocated: quarantined and broken ones; and jobs that use more than their share of one."""

import pytest
from tests.kits.log_builder import Story
from tests.kits.story_script import stories

from bailiff_core.records import facts

test_devices_in_stories = stories("""
a quarantined device is not allocated until it is cleared
    node n1: 2 gpus; quarantined n1 0; submit two: 2 gpus; => JobPending two; submit one: 1 gpu; => JobPlaced one
    one.tasks.0.devices = 2; started one; ends one; cleared n1 0; => JobPlaced two

an agent that starts anew makes no device clean
    node n1: 1 gpu; quarantined n1 0; node n1: 1 gpu, boot 2; submit job: 1 gpu; => JobPending job
    nodes.0.devices.0.fault = not-free

a device that a new agent reports as broken is evicted too
    node n1: 1 gpu; runs job: 1 gpu; node n1: 1 gpu, boot 2, sick 0; => EvictionDecided job cause=device

a quarantine after an eviction releases the victim and moves the reservation
    node n1: 1 gpu; runs low: 1 gpu; submit high: interactive, 1 gpu; propose; begin low; staged low term_sent; exits low code=143
    quarantined n1 0 job=low; => ReservationDropped high reason=resources-lost; releases low; => JobRequeued low
    low is pending; high is pending; n1.devices.0.fault_job = low; n1.devices.0.fault_since = now; node n2: 1 gpu
    => JobPlaced high
    cleared n1 0; => JobPlaced low; n1.devices.0.fault = -; n1.devices.0.fault_job = none; n1.devices.0.fault_since = none

a healthy device stays in quarantine with its reason
    node n1: 2 gpus; breaks n1 1; quarantined n1 1; repaired n1 1; n1.devices.1.healthy = true; n1.devices.1.fault = not-free
    submit two: 2 gpus; => JobPending two; cleared n1 1; => JobPlaced two

a job on a broken device is evicted and has not failed
    node n1: 2 gpus; runs job: 1 gpu; breaks n1 0; => EvictionDecided job cause=device; begin job; staged job term_sent
    exits job code=1
    releases job; => JobRequeued job outcome=preempted-unclean cause=device; job.failures = 0; job.evictions = 1
    job.tasks.0.devices = 2

a task that ends before its device is reported broken has not failed
    node n1: 1 gpu; runs job: 1 gpu; exits job code=1; breaks n1 0; releases job; => JobRequeued job outcome=lost
    repaired n1 0; n1.devices.0.fault = -

an elastic job continues without the member on a broken device
    node n1: 2 gpus; runs job: 2 x 1 gpu, min 1; breaks n1 1; => EvictionDecided job cause=device tasks=1; job is running

a job over its share is recorded and keeps running
    node n1: 1 gpu; runs greedy: 0.5 gpu; report ShareExceeded greedy device=GPU-n1-0 used_bytes=2 share_bytes=1; => nothing
    greedy is running

a job over its share is evicted where the policy says so
    rules {devices: {over_share: evict}}; node n1: 1 gpu; runs greedy: 0.5 gpu; runs modest: 0.5 gpu
    report ShareExceeded greedy device=GPU-n1-0 used_bytes=2 share_bytes=1; => EvictionDecided greedy cause=over-share
    modest is running

a fault dates from its first report
    node n1: 2 gpus; breaks n1 0; wait 1h; breaks n1 0; n1.devices.0.fault_since = now - 1h
    repaired n1 0; wait 1h; breaks n1 0; n1.devices.0.fault_since = now

a device that breaks while quarantined is at fault since its quarantine
    node n1: 2 gpus; quarantined n1 0; wait 1h; breaks n1 0; n1.devices.0.fault_since = now - 1h

all shares of a device are counted again when its node joins again
    node n1: 2 gpus; runs one: 0.5 gpu; runs two: 0.5 gpu; runs three: 0.5 gpu; node n1: 2 gpus
    n1.allocated.shares.0 = 85899345920000; n1.allocated.shares.1 = 42949672960000
""")


@pytest.mark.parametrize("minimum", [1, 2, 3])
@pytest.mark.parametrize("broken", [1, 2, 3])
def test_the_job_is_evicted_whole_where_the_tasks_on_healthy_devices_are_too_few(story: Story, minimum: int, broken: int) -> None:
    story.node("n1", gpus=3)
    story.runs("gang", gpus=1, tasks=3, min_tasks=minimum)
    devices = story.state.nodes[0].devices[:broken]
    story.cycle(*(facts.DeviceUnhealthy(node="n1", device=device.id, reason="xid", code=79) for device in devices))
    evicted = story.expect("EvictionDecided", job="gang", cause="device")
    assert bool(evicted.tasks) is (0 < 3 - broken >= minimum)
