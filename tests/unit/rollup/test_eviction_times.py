"""How long the stages of evictions take, from a log."""

from typing import Any

import pytest
from tests.kits.builders import group
from tests.kits.log_builder import HOUR, SECOND, Story, policy
from tests.kits.story_script import play
from tests.unit.rollup.kit import Counter, Scraped

from bailiff_core.records import facts
from bailiff_rollup import aggregators


@pytest.fixture
def story() -> Story:
    """A machine of eight GPUs, all of which train-1 has held for an hour."""
    made = Story()
    made.node("n1", gpus=8)
    made.submit("train-1", gpus=8, cls="train")
    made.started("train-1")
    made.time += HOUR
    return made


def reach(story: Story, stage: str, after: int, **about: Any) -> None:
    story.cycle(facts.EvictionStageReached.model_validate({**story.at("train-1", 0), "stage": stage, **about}), after=after)


def evicted(story: Story) -> None:
    """Noticed after 1 s, then acknowledged after 2, saved after 3, exited after 4, released after 5; the other starts after 6."""
    play("submit urgent: inference, 8 gpus; propose; begin train-1", story=story)
    for after, stage in ((1, "noticed"), (2, "acknowledged"), (1, "checkpoint_started"), (2, "checkpoint_committed")):
        reach(story, stage, after * SECOND)
    play("+4s; exits train-1 85; +5s; releases train-1; +6s; started urgent", story=story)


def seconds(counter: Counter, name: str = "stage") -> dict[tuple[str, ...], float]:
    return {labels: milliseconds / 1000 for labels, milliseconds in counter.of(f"{name}-ms").items()}


def test_each_stage_is_measured_from_the_end_of_the_one_before(story: Story) -> None:
    evicted(story)
    story.ends("urgent", after=HOUR)
    story.started("train-1", after=7 * SECOND)
    found = seconds(Counter().feed(story.wires))
    stages = {"notice": 1, "acknowledge": 2, "save": 3, "exit": 4, "release": 5}
    assert {stage: found[stage, "train"] for stage in stages} == stages
    assert (found["start", "inference"], found["total", "inference"]) == (6, 21)
    assert found["return", "train"] == 6 + 3600 + 7
    assert seconds(Counter().feed(story.wires), "node-stage") == {(stage, "n1"): time for stage, time in stages.items()}


def test_an_eviction_is_measured_whole_by_a_roll_up_that_was_killed_in_it(story: Story) -> None:
    evicted(story)
    whole = Counter().feed(story.wires)
    for at in range(1, len(story.wires)):
        parts = Counter().feed(story.wires[:at])
        parts.restart()
        parts.feed(story.wires[at:])
        assert seconds(parts) == seconds(whole)
        assert parts.of("stage") == whole.of("stage")


def test_a_task_that_was_never_notified_has_no_stages_before_its_exit(story: Story) -> None:
    play("cancel train-1; begin train-1; +2s; exits train-1 0; +1s; releases train-1", story=story)
    counter = Counter().feed(story.wires)
    assert seconds(counter) == {("exit", "train"): 2, ("release", "train"): 1}
    assert {name: each for name, each in counter.aggregates.evictions.items() if name != "nodes"} == {
        "victims": {},
        "preemptors": {},
        "returning": {},
    }, "nothing is kept of what has ended"


def test_a_job_that_ends_by_itself_is_no_eviction(story: Story) -> None:
    story.ends("train-1", 0, after=SECOND)
    assert seconds(Counter().feed(story.wires)) == {}


def test_times_are_exported_as_histograms_by_class_and_by_node(story: Story) -> None:
    evicted(story)
    scraped = Scraped(story)
    assert scraped("bailiff_preemptions_total", action="preempt", rule="priority") == 1
    series = {"stage": "save", "priority_class": "train"}
    assert [scraped("bailiff_eviction_stage_seconds_bucket", le=le, **series) for le in ("2", "5", "+Inf")] == [0, 1, 1]
    assert scraped("bailiff_eviction_stage_seconds_sum", **series) == 3
    assert scraped("bailiff_eviction_stage_seconds_count", stage="save", priority_class="inference") == 0
    assert scraped("bailiff_node_eviction_stage_seconds_bucket", stage="save", node="n1", le="10") == 1


def test_nodes_beyond_the_most_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregators, "MOST_NODES", 1)
    story = Story(policy())
    for node in ("n1", "n2", "n3"):
        story.node(node, gpus=1)
    story.submit("wide", group(3, gpus=1), cls="train")
    play("started wide; cancel wide; yields wide", story=story)
    assert {
        node: count for (stage, node, _), count in Counter().feed(story.wires).of("node-stage").items() if stage == "exit"
    } == {"n1": 1, "": 2}
