"""GPUs on one NVLink island are a preference: kept where it costs nothing, on record, and never a reason to wait or to evict."""

from collections.abc import Callable

import pytest
from tests.kits.explained import sentences
from tests.kits.log_builder import Story, policy
from tests.kits.mig import devices, joins
from tests.kits.story_script import stories

from bailiff_core.model.demand import TaskGroup

test_islands_in_stories = stories("""
a gang gets the island that it fills best
    joins n1 8xH100-80GB/nvlink4; runs first: 1 gpu; submit gang: 2 x 2 gpus, prefers nvlink
    => JobPlaced gang island=n1/nvlink-1 placement.*.devices=4-7; submit small: 2 x 1 gpu, prefers nvlink
    => JobPlaced small island=n1/nvlink-0

without the preference the lowest numbers are taken and nothing is on record
    joins n1 8xH100-80GB/nvlink4; runs first: 1 gpu; submit gang: 2 x 2 gpus; => JobPlaced gang island=- placement.*.devices=1-4

where no island takes all, each task has its own
    joins n1 8xH100-80GB/nvlink2; runs first: 1 gpu; submit gang: 3 x 2 gpus, prefers nvlink
    => JobPlaced gang island="per task" placement.*.devices=2-7

a node with an island is preferred to a fuller one without
    joins n1 4xH100-80GB; joins n2 8xH100-80GB/nvlink4; runs first: 1 gpu; submit gang: 3 gpus, prefers nvlink
    => JobPlaced gang island=n2/nvlink-0

it starts at once where no island is free
    joins n1 8xH100-80GB/nvlink2; runs a: 2 gpus; runs b: 2 gpus; runs c: 2 gpus; runs d: 2 gpus; ends a; runs half: 1 gpu; ends b
    runs other-half: 1 gpu; submit quarter: 1 gpu; started quarter; ends half; submit pair: 2 gpus, prefers nvlink
    => JobPlaced pair island=none reserved=false

it evicts no more for an island
    joins n1 4xH100-80GB/nvlink2; runs a: 1 gpu; runs b: 2 gpus; ends a; submit serve: inference, 2 gpus, prefers nvlink
    => JobPlaced serve island=none reserved=false; b is running

after a preemption the freed island is used
    joins n1 8xH100-80GB/nvlink4; runs keep: 1 gpu; runs x: 1 gpu; runs y: 1 gpu; runs z: 1 gpu; +1m; runs victim: 4 gpus
    submit serve: inference, 4 gpus, prefers nvlink; propose; => PreemptionDecided victims.*.job=victim island=n1/nvlink-1

the policy sets the default, and a job may decline
    rules {placement: prefer nvlink}; joins n1 8xH100-80GB/nvlink4; runs first: 1 gpu; submit by-default: 4 gpus
    => JobPlaced island=n1/nvlink-1; cancel by-default; yields by-default; submit declines: 4 gpus, placement any
    => JobPlaced island=-

one GPU and parts of GPUs prefer nothing
    joins n1 8xH100-80GB/nvlink4; submit one: 1 gpu, prefers nvlink; => JobPlaced one island=-
    submit part: 0.5 of each of 2 gpus, prefers nvlink; => JobPlaced part island=-
""")


PREFERS = {"placement": "prefer nvlink"}
PAIRS = "8xH100-80GB/nvlink2"
FOURS = "8xH100-80GB/nvlink4"


def test_a_topology_rule_and_an_island_hold_together(tell: Callable[..., Story]) -> None:
    story = tell(policy(topologies=[{"name": "dc", "levels": ["rack"]}]))
    for name, rack in (("n1", "r1"), ("n2", "r2")):
        story.node(name, gpus=8, labels={"rack": rack})
        known = story.joined(name, labels={"rack": rack}, boot=2)
        story.cycle(known.model_copy(update={"devices": devices(FOURS, name)}))
    story.runs("first", gpus=1)
    rule = {"topology": "dc", "required": "rack"}
    story.submit("gang", TaskGroup(count=2, gpu_milli=2000), topology=rule, **PREFERS)
    assert story.expect("JobPlaced", job="gang").island == "n1/nvlink-1"


@pytest.mark.parametrize(
    ("spec", "gpus", "says"),
    [
        (FOURS, 4, "Its GPUs are on one island, n1/nvlink-1 (placement: prefer nvlink)."),
        (
            PAIRS,
            3,
            "No free island fitted, so its GPUs are not all on one, and it did not wait for one (placement: prefer nvlink).",
        ),
    ],
)
def test_explain_says_what_the_preference_came_to(story: Story, spec: str, gpus: int, says: str) -> None:
    joins(story, "n1", spec)
    story.runs("first", gpus=1)
    story.runs("gang", gpus=gpus, **PREFERS)
    assert says in sentences(story, "gang")
