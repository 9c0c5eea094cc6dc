"""Machines that fall silent, are lost, come back, or come back with less."""

from tests.kits.story_script import stories

test_nodes_in_stories = stories("""
nothing new is placed on a silent node
    node n1: 8 gpus; runs job: 4 gpus; silent n1; submit next: 4 gpus; => JobPending next; job is running
    reachable n1; => JobPlaced next

half a gang on a lost node stops the other half
    node n1: 8 gpus; node n2: 8 gpus; runs gang: 2 x 8 gpus; lost n1; => EvictionDecided gang cause=gang-failure
    begin gang; staged gang term_sent; ends gang code=143; => JobRequeued gang outcome=lost

a victim lost with its node
    node n1: 8 gpus; runs low: 8 gpus; submit high: interactive, 8 gpus; propose; begin low; lost n1
    => JobRequeued low outcome=lost cause=exit; => ReservationDropped high reason=resources-lost; low is pending
    high is pending

an unhealthy device is not allocated
    node n1: 4 gpus, sick 1; submit job: 3 gpus; => JobPlaced placement.0.devices=0,2-3

another machine takes the name
    node n1: 8 gpus; fact NodeReplaced node=n1 machine_id=other; nodes.0.machine_id = other

jobs of a lost node are requeued
    node n1: 8 gpus; node n2: 8 gpus; runs one: 8 gpus; runs two: 8 gpus; silent n1; lost n1; => JobRequeued one outcome=lost
    one.failures = 0; one.evictions = 0; wait 1m; one is pending; node n1: boot 2; => JobPlaced one attempt=2

a job that is lost with its node after it ran for long keeps its place
    node n1: 8 gpus; runs job: 8 gpus; submit next: 8 gpus; next is pending; +10m; node n1: boot 2; vanished job 0
    => JobRequeued job outcome=lost; => JobPlaced job attempt=2; next is pending

a job that is lost soon after its start waits for its back-off
    node n1: 8 gpus; runs job: 8 gpus; submit next: 8 gpus; +10s; node n1: boot 2; vanished job 0
    => JobRequeued job outcome=lost; => JobPlaced next; job is pending

tasks that the inventory lacks have ended
    node n1: 8 gpus; runs job: 4 gpus; node n1: boot 2; vanished job 0; => JobRequeued job outcome=lost; wait 1m
    => JobPlaced job attempt=2

devices keep their numbers
    node n1: 4 gpus; runs job: 2 gpus; node n1: 4 gpus, missing 0 2, boot 2
    n1.devices.*.id = GPU-n1-0 GPU-n1-1 GPU-n1-2 GPU-n1-3; n1.devices.*.healthy = false true false true
    n1.capacity.devices = 10; n1.allocated.devices = 3; node n1: 4 gpus, boot 3; submit next: 2 gpus
    => JobPlaced next placement.0.devices=2-3

silent nodes are recorded until they report
    node n1; node n2; node n3; fact NodesSilent "nodes=[n1, n2]"; submit job: 2 x 8 gpus; => JobPending; silent_nodes = n1 n2
    reachable n1; silent_nodes = n2; => JobPlaced job; fact NodeReturned; silent_nodes = nothing

a silent node that joins again is silent no more
    node n1; node n2; fact NodesSilent "nodes=[n1, n2]"; node n1; silent_nodes = n2

the index of an allocated device is not used again
    node n1: 4 gpus; runs job: 2 gpus; node n1: 8 gpus, missing 0 1 2 3, boot 2
    n1.devices.*.id = GPU-n1-0 GPU-n1-1 GPU-n1-4 GPU-n1-5 GPU-n1-6 GPU-n1-7; n1.capacity.devices = 60; n1.allocated.devices = 3
""")


def test_a_machine_replaced_again_and_again_keeps_small_numbers(story):
    story.node("n1", gpus=8)
    for life in range(2, 12):
        story.node("n1", gpus=8 * life, missing=range(8 * (life - 1)), boot=life)
    assert [device.id for device in story.state.nodes[0].devices] == [f"GPU-n1-{n}" for n in range(80, 88)]
    story.runs("low", gpus=8)
    story.submit("high", gpus=8, cls="interactive")
    story.propose()
    assert story.expect("PreemptionDecided").placement[0].devices == "0-7"
