"""Allocation of a GPU at a time: jobs before and after, reservation, and faults."""

from tests.kits.log_builder import MINUTE, SECOND, Story
from tests.kits.story_script import play

from bailiff_core.explain import NodeAtTime, NodeHistory, explain_node


def watched(story: Story, node: str) -> NodeHistory:
    watch = NodeHistory(node)
    for record in story.records:
        watch.take(record)
    return watch


def device_text(then: NodeAtTime, device: int) -> str:
    (section,) = explain_node(then, device)
    return " ".join(each.text for each in section.sentences)


def preempted() -> tuple[Story, int]:
    story = play("node n1: 2 gpus; +1m; runs low: 2 gpus; +1h; submit high: inference, 1 gpu")
    notified_at = story.time
    play("propose; +10s; yields low; +1s; started high; +1h; ends high 0", story=story)
    return story, notified_at


def test_it_is_allocated_to_one_job_and_reserved_for_the_next() -> None:
    story, notified_at = preempted()
    then = watched(story, "n1").at(notified_at + SECOND)
    device = then.devices[0]
    assert [(stay.kind, stay.job) for stay in device.states] == [("allocated", "low"), ("reserved", "high")]
    assert device.before is None
    assert (device.after.job if device.after else "") == "high"
    assert "Allocated to low (attempt 1, task 0) since 01-01 00:01:00 (1h at that time)" in device_text(then, 0)
    assert "Reserved for high (attempt 1, task 0)" in device_text(then, 0)
    for stay in device.states:
        assert story.records[stay.since_seq].time == stay.since
        assert stay.until_seq is not None
        assert story.records[stay.until_seq].time == stay.until


def test_before_and_after_name_the_records() -> None:
    story, notified_at = preempted()
    then = watched(story, "n1").at(notified_at + MINUTE)
    device = then.devices[0]
    assert [(stay.kind, stay.job) for stay in device.states] == [("allocated", "high")]
    assert device.before is not None
    assert (device.before.job, device.before.until) == ("low", notified_at + 10 * SECOND)
    assert then.seq == max(record.seq for record in story.records if record.time <= notified_at + MINUTE)


def test_a_free_device_names_since_when_it_is_free() -> None:
    story, _ = preempted()
    play("started low; +1m; ends low 0; wait 1h", story=story)
    then = watched(story, "n1").at(story.time)
    assert device_text(then, 0).startswith("Idle since ")


def test_faults_are_listed_with_time_and_reason() -> None:
    story = play("node n1: 2 gpus; runs low: 1 gpu; +1m; ends low 0; quarantined n1 0 job=low; breaks n1 1")
    begun = story.time
    play('wait 1h; drain n1 graceful reason="new memory"; +1s; silent n1', story=story)
    middle = story.time
    play("+1m; reachable n1; cleared n1 0; repaired n1 1; undrain n1", story=story)
    watch = watched(story, "n1")
    first = device_text(watch.at(begun + SECOND), 0)
    assert "Quarantined since" in first
    assert "not-free (after low)" in first
    assert [stay.kind for stay in watch.at(middle).devices[1].states] == ["unhealthy", "drained", "unreachable"]
    assert "Node drained" in device_text(watch.at(middle), 1)
    assert "new memory" in device_text(watch.at(middle), 1)
    assert [stay.kind for stay in watch.at(story.time).devices[1].states] == []


def test_a_lost_node_has_no_tasks() -> None:
    story = play("node n1: 2 gpus; runs low: 2 gpus; +1m; silent n1; +1h; lost n1")
    then = watched(story, "n1").at(story.time)
    assert [stay.kind for stay in then.devices[0].states] == ["lost"]
    assert then.devices[0].before is not None
    assert then.devices[0].before.job == "low"


def test_gpus_of_which_the_same_is_to_be_said_are_one_section() -> None:
    story = Story()
    story.node("n1", gpus=8)
    story.runs("low", gpus=4, after=MINUTE)
    titles = [section.question for section in explain_node(watched(story, "n1").at(story.time))]
    assert [title.partition(" at ")[0] for title in titles] == [
        "What was on n1, GPUs 0-3 (h100),",
        "What was on n1, GPUs 4-7 (h100),",
    ]


def test_before_it_joined_nothing_is_known() -> None:
    story = play("wait 1h; node n1: 2 gpus")
    (section,) = explain_node(watched(story, "n1").at(story.time - MINUTE))
    assert "it joined at 01-01 01:00:00" in section.sentences[0].text
