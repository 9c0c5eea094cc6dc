"""GPUs on one NVLink island are a preference: kept where it costs nothing, on record, and never a reason to wait or to evict."""

from collections.abc import Callable

import pytest
from tests.log_builder import Story, policy
from tests.mig_kit import devices, joins, on

from bailiff_core.explain import explain_job
from bailiff_core.model.demand import TaskGroup

PREFERS = {"placement": "prefer nvlink"}
PAIRS = "8xH100-80GB/nvlink2"
FOURS = "8xH100-80GB/nvlink4"


def numbers(story: Story, job: str) -> list[int]:
    """Numbers of the job's GPUs on their node, in the simulated notation."""
    return [int(each.rpartition("-")[2]) for each in on(story, job)]


def test_a_gang_gets_the_island_that_it_fills_best(story: Story) -> None:
    joins(story, "n1", FOURS)
    story.runs("first", gpus=1)
    story.submit("gang", TaskGroup(count=2, gpu_milli=2000), **PREFERS)
    assert story.expect("JobPlaced", job="gang").island == "n1/nvlink-1"
    assert numbers(story, "gang") == [4, 5, 6, 7]
    story.submit("small", TaskGroup(count=2, gpu_milli=1000), **PREFERS)
    assert story.expect("JobPlaced", job="small").island == "n1/nvlink-0"


def test_without_the_preference_the_lowest_numbers_are_taken_and_nothing_is_on_record(story: Story) -> None:
    joins(story, "n1", FOURS)
    story.runs("first", gpus=1)
    story.submit("gang", TaskGroup(count=2, gpu_milli=2000))
    assert story.expect("JobPlaced", job="gang").island == ""
    assert numbers(story, "gang") == [1, 2, 3, 4]
    assert "island" not in story.records[-1].data.to_data()


def test_where_no_island_takes_all_each_task_has_its_own(story: Story) -> None:
    joins(story, "n1", PAIRS)
    story.runs("first", gpus=1)
    story.submit("gang", TaskGroup(count=3, gpu_milli=2000), **PREFERS)
    assert story.expect("JobPlaced", job="gang").island == "per task"
    assert numbers(story, "gang") == [2, 3, 4, 5, 6, 7]


def test_a_node_with_an_island_is_preferred_to_a_fuller_one_without(story: Story) -> None:
    joins(story, "n1", "4xH100-80GB")
    joins(story, "n2", FOURS)
    story.runs("first", gpus=1)
    story.submit("gang", gpus=3, **PREFERS)
    assert story.expect("JobPlaced", job="gang").island == "n2/nvlink-0"


def test_it_starts_at_once_where_no_island_is_free(story: Story) -> None:
    joins(story, "n1", PAIRS)
    for name in ("a", "b", "c", "d"):
        story.runs(name, gpus=2)
    story.ends("a")
    story.runs("half", gpus=1)
    story.ends("b")
    story.runs("other-half", gpus=1)  # the other one of the first pair
    story.submit("quarter", gpus=1)
    story.started("quarter")
    story.ends("half")
    story.submit("pair", gpus=2, **PREFERS)
    placed = story.expect("JobPlaced", job="pair")
    assert (placed.island, placed.reserved) == ("none", False)


def test_it_evicts_no_more_for_an_island(story: Story) -> None:
    """Two GPUs are free on two islands; whole islands would cost a victim."""
    joins(story, "n1", "4xH100-80GB/nvlink2")
    story.runs("a", gpus=1)
    story.runs("b", gpus=2)
    story.ends("a")
    story.submit("serve", gpus=2, cls="inference", **PREFERS)
    placed = story.expect("JobPlaced", job="serve")
    assert (placed.island, placed.reserved, story.phases()["b"]) == ("none", False, "running")


def test_after_a_preemption_the_freed_island_is_used(story: Story) -> None:
    joins(story, "n1", FOURS)
    story.runs("keep", gpus=1)
    for name in ("x", "y", "z"):
        story.runs(name, gpus=1)
    story.runs("victim", gpus=4, after=60_000_000)
    story.submit("serve", gpus=4, cls="inference", **PREFERS)
    story.propose()
    decided = story.expect("PreemptionDecided")
    assert len(decided.victims) == 1
    assert decided.island == "n1/nvlink-1"


def test_the_policy_sets_the_default_and_a_job_may_decline(tell: Callable[..., Story]) -> None:
    story = tell(policy(placement="prefer nvlink"))
    joins(story, "n1", FOURS)
    story.runs("first", gpus=1)
    story.submit("by-default", gpus=4)
    assert story.expect("JobPlaced").island == "n1/nvlink-1"
    story.cancel("by-default")
    story.yields("by-default")
    story.submit("declines", gpus=4, placement="any")
    assert story.expect("JobPlaced").island == ""


def test_one_gpu_and_parts_of_gpus_prefer_nothing(story: Story) -> None:
    joins(story, "n1", FOURS)
    story.submit("one", gpus=1, **PREFERS)
    assert story.expect("JobPlaced", job="one").island == ""
    story.submit("part", TaskGroup(gpu_share_milli=500, gpu_devices=2), **PREFERS)
    assert story.expect("JobPlaced", job="part").island == ""


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
    history = [record for record in story.records if getattr(record.data, "job", None) == "gang"]
    sections = explain_job(story.state, story.job("gang"), history)
    assert says in [sentence.text for section in sections for sentence in section.sentences]
