"""What nodes have stored of a job is removed once the job has ended, however it ends."""

from typing import Any

import pytest
from tests.kits.log_builder import MINUTE, Story, policy
from tests.kits.story_script import play

from bailiff_admission.ended_snapshots import EndedSnapshots
from bailiff_bus.messages.commands import RemoveSnapshots
from bailiff_core.model.policy import SnapshotRules
from bailiff_core.records import facts

GPUS = 8
FIRST, SECOND = "a" * 64, "b" * 64


def joined(story: Story, name: str, folder: str | None = None) -> None:
    offers = (facts.SnapshotOffer(driver="criu", version="4.2", cpu="c" * 64),)
    story.cycle(story.joined(name, gpus=GPUS, checkpoints=folder).model_copy(update={"snapshots": offers}))


def saved(story: Story, sha256: str) -> None:
    """It is paused, and saved."""
    story.pause("job")
    story.begin("job")
    for name, fields in (("noticed", {}), ("frozen", {}), ("dumped", {}), ("stored", {"sha256": sha256, "bytes": 1})):
        driver = {} if name == "noticed" else {"driver": "criu"}
        stage: dict[str, Any] = {**story.at("job", 0), "stage": name, **driver, **fields}
        story.cycle(facts.EvictionStageReached.model_validate(stage))
    story.ends("job", -9)


def observed(story: Story, ended: EndedSnapshots, since: int) -> list[RemoveSnapshots]:
    return [command for record in story.records[since:] for command in ended.observe(story.state, record)]


def told(commands: list[RemoveSnapshots]) -> list[tuple[str, list[str]]]:
    return [(command.node, [each.sha256 for each in command.snapshots]) for command in commands]


@pytest.fixture
def story() -> Story:
    """A job that its node saves runs on one of two nodes."""
    story = Story()
    joined(story, "n1")
    joined(story, "n2")
    story.runs("job", gpus=GPUS, checkpoint="snapshot", max_failures=0)
    return story


def test_once_the_policy_does_not_keep_it_any_more() -> None:
    story = Story(rules=policy(snapshots=SnapshotRules(kept_for=MINUTE)))
    joined(story, "n1")
    story.runs("job", gpus=GPUS, checkpoint="snapshot")
    ended, since = EndedSnapshots(), len(story.records)
    saved(story, FIRST)
    story.wait(2 * MINUTE)
    assert told(observed(story, ended, since)) == [("n1", [FIRST])]
    story.cancel("job")
    assert told(observed(story, ended, len(story.records) - 2)) == []


@pytest.mark.parametrize(("how", "outcome"), [("cancelled", "cancelled"), ("exits", "succeeded"), ("fails", "failed")])
def test_however_it_ends(story: Story, how: str, outcome: str) -> None:
    ended = EndedSnapshots()
    saved(story, FIRST)
    assert observed(story, ended, 0) == [], "it is still needed"
    since = len(story.records)
    if how == "cancelled":
        story.cancel("job")
    else:
        story.resume("job")
        story.started("job")
        story.ends("job", {"exits": 0, "fails": 1}[how])
    assert story.job("job").phase == outcome
    commands = observed(story, ended, since)
    assert told(commands) == [("n1", [FIRST])]
    assert commands[0].incarnation == story.state.nodes[0].incarnation
    assert told(observed(story, ended, since)) == [], "once"


def test_those_of_every_node_that_it_was_on(story: Story) -> None:
    ended = EndedSnapshots()
    saved(story, FIRST)
    play("drain n1; resume job; started job", story=story)
    saved(story, SECOND)
    story.cancel("job")
    assert told(observed(story, ended, 0)) == [("n1", [FIRST]), ("n2", [SECOND])]


def test_a_writer_that_begins_knows_what_the_state_has(story: Story) -> None:
    saved(story, FIRST)
    ended, since = EndedSnapshots(), len(story.records)
    ended.begin(story.state)
    ended.begin(story.state)
    story.cancel("job")
    assert told(observed(story, ended, since)) == [("n1", [FIRST])]


@pytest.mark.parametrize("folder", [None, "nfs"])
def test_of_a_lost_node_another_with_the_same_folder_removes_them_or_the_node_when_it_is_back(folder: str | None) -> None:
    story, ended = Story(), EndedSnapshots()
    joined(story, "n1", folder)
    story.runs("job", gpus=GPUS, checkpoint="snapshot")
    saved(story, FIRST)
    joined(story, "n2", folder)
    story.lost("n1")
    story.cancel("job")
    since = len(story.records)
    assert told(observed(story, ended, 0)) == ([("n2", [FIRST])] if folder else [])
    joined(story, "n1", folder)
    assert told(observed(story, ended, since)) == ([] if folder else [("n1", [FIRST])])


def saved_running(story: Story, sha256: str, stage: str = "stored") -> None:
    """It is saved while it runs."""
    story.cycle(facts.JobCheckpointRequested(request=story.request(), job="job"))
    about = {**story.at("job", 0), "driver": "criu", "sha256": sha256 if stage == "stored" else None, "bytes": 1}
    story.cycle(facts.SnapshotStageReached.model_validate({**about, "stage": stage}))


def test_a_newer_one_that_is_on_record_replaces_the_older(story: Story) -> None:
    ended = EndedSnapshots()
    saved_running(story, FIRST)
    assert told(observed(story, ended, 0)) == []
    since = len(story.records)
    saved_running(story, SECOND, "save_failed")
    assert told(observed(story, ended, since)) == [], "one that fails replaces nothing"
    since = len(story.records)
    saved_running(story, SECOND)
    assert told(observed(story, ended, since)) == [("n1", [FIRST])]
    since = len(story.records)
    play("cancel job; begin job; ends job -9", story=story)
    assert told(observed(story, ended, since)) == [("n1", [SECOND])]
