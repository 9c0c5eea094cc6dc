"""Reports about devices become facts once; a person's word about one goes to its agent until that has answered."""

from typing import Any

import pytest
from tests.log_builder import Story

from bailiff_admission.intake import Rejected
from bailiff_admission.intake.reports import facts_of_report
from bailiff_admission.intake.requests import Asked, facts_of_request
from bailiff_admission.owed import owed_clears
from bailiff_bus.messages import (
    ClearQuarantine,
    DeviceIsBroken,
    DeviceIsClean,
    DeviceIsDirty,
    DeviceWorks,
    DirtyDevice,
    NodeAnnounced,
    TaskIsIdle,
)
from bailiff_core.records import facts

GPU = "GPU-n1-0"
READING = facts.DeviceReading(device=GPU, memory_used=5, processes=1)
DIRTY = DirtyDevice(device=GPU, reason="not-free", detail="memory", reading=READING, job="low", attempt=1, task=0)


@pytest.fixture
def story() -> Story:
    made = Story()
    made.node("n1", gpus=2)
    return made


def from_n1(story: Story, kind: Any, **fields: Any) -> list[Any]:
    about = {"node": "n1", "incarnation": story.pool.nodes[0].incarnation, "number": 9, "device": GPU}
    return facts_of_report(story.pool, kind(**{**about, **fields}))


def clear(story: Story, device: str = "0") -> Any:
    body = ClearQuarantine(node="n1", device=device, reason="looked at it")
    return facts_of_request(story.pool, Asked("ops", device, "0" * 64, None, "ann", "none", body))


def test_dirty_and_clean_are_on_record_once(story: Story) -> None:
    [fact] = from_n1(story, DeviceIsDirty, found=DIRTY)
    assert (fact.device, fact.reason, fact.job, fact.reading) == (GPU, "not-free", "low", READING)
    assert from_n1(story, DeviceIsClean, reading=READING) == []  # it is not dirty yet
    story.turn(fact)
    assert from_n1(story, DeviceIsDirty, found=DIRTY) == []
    [fact] = from_n1(story, DeviceIsClean, reading=READING)
    story.turn(fact)
    assert story.pool.nodes[0].quarantined == 0


def test_broken_and_repaired_are_on_record_once(story: Story) -> None:
    [fact] = from_n1(story, DeviceIsBroken, reason="xid", code=79)
    story.turn(fact)
    assert from_n1(story, DeviceIsBroken, reason="xid", code=79) == []
    [fact] = from_n1(story, DeviceWorks)
    story.turn(fact)
    assert from_n1(story, DeviceWorks) == []


def test_reports_of_strangers_and_of_unknown_devices_have_no_effect(story: Story) -> None:
    assert from_n1(story, DeviceIsDirty, found=DIRTY, incarnation="another") == []
    assert from_n1(story, DeviceIsDirty, found=DIRTY, device="GPU-9") == []


def announced(story: Story, *dirty: DirtyDevice) -> list[facts.Fact]:
    joined = story.joined("n1", gpus=2, boot=2)
    return facts_of_report(
        story.pool,
        NodeAnnounced(
            node="n1", incarnation="i2", number=0, machine_id=joined.machine_id, boot_id="b2", release="0", cpu_milli=1000,
            memory_bytes=1, devices=joined.devices, dirty=dirty,
        ),
    )  # fmt: skip


def test_an_announcement_names_all_that_is_dirty(story: Story) -> None:
    story.turn(*announced(story, DIRTY))
    assert story.pool.nodes[0].quarantined == 0b01
    assert [type(fact) for fact in announced(story, DIRTY)] == [facts.NodeJoined]
    story.turn(*announced(story))
    assert story.pool.nodes[0].quarantined == 0


def test_a_person_asks_for_a_device_until_its_agent_has_answered(story: Story) -> None:
    story.quarantined("n1", 0)
    [fact] = clear(story)
    assert (fact.device, fact.reason) == (GPU, "looked at it")
    story.turn(fact)
    [command] = owed_clears(story.pool)
    assert (command.node, command.device, command.asked) == ("n1", GPU, story.pool.last_fact)
    assert story.pool.nodes[0].quarantined == 0b01  # a wish opens nothing
    [fact] = from_n1(story, DeviceIsClean, reading=READING, asked=command.asked)
    story.turn(fact)
    assert [*owed_clears(story.pool)] == []


def test_a_broken_device_is_asked_for_and_may_still_be_broken(story: Story) -> None:
    story.breaks("n1", 0)
    [fact] = clear(story, GPU)
    story.turn(fact)
    [fact] = from_n1(story, DeviceIsBroken, reason="lost")
    story.turn(fact)
    assert [*owed_clears(story.pool)] == []
    assert not story.pool.nodes[0].devices[0].healthy


@pytest.mark.parametrize(("device", "code"), [("0", "not-quarantined"), ("7", "no-such-device"), ("GPU-x", "no-such-device")])
def test_what_cannot_be_cleared_is_refused_with_words(story: Story, device: str, code: str) -> None:
    refused = clear(story, device)
    assert isinstance(refused, Rejected)
    assert refused.code == code


def test_that_a_task_idles_or_works_again_is_on_record_once(story: Story) -> None:
    story.runs("low", gpus=1)

    def says(**fields: Any) -> list[Any]:
        about = {"node": "n1", "incarnation": story.pool.nodes[0].incarnation, "number": 9, "job": "low", "attempt": 1, "task": 0}
        return facts_of_report(story.pool, TaskIsIdle(**about, **fields))

    assert says(idle=False) == []
    [fact] = says(lasted=60_000_000)
    assert (fact.idle, fact.lasted) == (True, 60_000_000)
    story.turn(fact)
    assert says(lasted=60_000_000) == []
    [fact] = says(idle=False)
    assert not fact.idle
