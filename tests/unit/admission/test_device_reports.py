"""Reports about devices become facts once; a clear request is sent to its agent until that has answered."""

from typing import Any

import pytest
from tests.kits.log_builder import Story

from bailiff_admission.pending_commands import pending_clears
from bailiff_admission.request_handlers.reports import facts_of_report
from bailiff_bus.messages import devices
from bailiff_bus.messages.reports import NodeInventory, QuarantinedDevice
from bailiff_core.admission import ReceivedRequest, admit_received
from bailiff_core.admission.rejected import Rejected
from bailiff_core.records import facts
from bailiff_core.records.node_requests import ClearQuarantine

GPU = "GPU-n1-0"
READING = facts.DeviceReading(device=GPU, memory_used=5, processes=1)
DIRTY = QuarantinedDevice(device=GPU, reason="not-free", detail="memory", reading=READING, job="low", attempt=1, task=0)


@pytest.fixture
def story() -> Story:
    made = Story()
    made.node("n1", gpus=2)
    return made


def from_n1(story: Story, kind: Any, **fields: Any) -> list[Any]:
    about = {"node": "n1", "incarnation": story.state.nodes[0].incarnation, "number": 9, "device": GPU}
    return facts_of_report(story.state, kind(**{**about, **fields}))


def clear(story: Story, device: str = "0") -> Any:
    body = ClearQuarantine(node="n1", device=device, reason="looked at it")
    return admit_received(story.state, ReceivedRequest("ops", device, "0" * 64, None, "ann", "none", body))


def test_dirty_and_clean_are_on_record_once(story: Story) -> None:
    [fact] = from_n1(story, devices.DeviceQuarantinedReport, quarantine=DIRTY)
    assert (fact.device, fact.reason, fact.job, fact.reading) == (GPU, "not-free", "low", READING)
    assert from_n1(story, devices.DeviceClearedReport, reading=READING) == []  # it is not dirty yet
    story.cycle(fact)
    assert from_n1(story, devices.DeviceQuarantinedReport, quarantine=DIRTY) == []
    [fact] = from_n1(story, devices.DeviceClearedReport, reading=READING)
    story.cycle(fact)
    assert story.state.nodes[0].quarantined == 0


def test_broken_and_repaired_are_on_record_once(story: Story) -> None:
    [fact] = from_n1(story, devices.DeviceUnhealthyReport, reason="xid", code=79)
    story.cycle(fact)
    assert from_n1(story, devices.DeviceUnhealthyReport, reason="xid", code=79) == []
    [fact] = from_n1(story, devices.DeviceHealthyReport)
    story.cycle(fact)
    assert from_n1(story, devices.DeviceHealthyReport) == []


def test_reports_of_strangers_and_of_unknown_devices_have_no_effect(story: Story) -> None:
    assert from_n1(story, devices.DeviceQuarantinedReport, quarantine=DIRTY, incarnation="another") == []
    assert from_n1(story, devices.DeviceQuarantinedReport, quarantine=DIRTY, device="GPU-9") == []


def announced(story: Story, *dirty: QuarantinedDevice) -> list[facts.Fact]:
    joined = story.joined("n1", gpus=2, boot=2)
    return facts_of_report(
        story.state,
        NodeInventory(
            node="n1",
            incarnation="i2",
            number=0,
            machine_id=joined.machine_id,
            boot_id="b2",
            release="0",
            cpu_milli=1000,
            memory_bytes=1,
            devices=joined.devices,
            quarantined=dirty,
        ),
    )


def test_an_announcement_names_all_that_is_dirty(story: Story) -> None:
    story.cycle(*announced(story, DIRTY))
    assert story.state.nodes[0].quarantined == 0b01
    assert [type(fact) for fact in announced(story, DIRTY)] == [facts.NodeJoined]
    story.cycle(*announced(story))
    assert story.state.nodes[0].quarantined == 0


def test_a_device_clear_request_is_pending_until_its_agent_has_answered(story: Story) -> None:
    story.quarantined("n1", 0)
    [fact] = clear(story)
    assert (fact.device, fact.reason) == (GPU, "looked at it")
    story.cycle(fact)
    [command] = pending_clears(story.state)
    assert (command.node, command.device, command.requested_by) == ("n1", GPU, story.state.last_fact)
    assert story.state.nodes[0].quarantined == 0b01  # a wish opens nothing
    [fact] = from_n1(story, devices.DeviceClearedReport, reading=READING, requested_by=command.requested_by)
    story.cycle(fact)
    assert [*pending_clears(story.state)] == []


def test_a_broken_device_is_asked_for_and_may_still_be_broken(story: Story) -> None:
    story.breaks("n1", 0)
    [fact] = clear(story, GPU)
    story.cycle(fact)
    [fact] = from_n1(story, devices.DeviceUnhealthyReport, reason="lost")
    story.cycle(fact)
    assert [*pending_clears(story.state)] == []
    assert not story.state.nodes[0].devices[0].healthy


@pytest.mark.parametrize(("device", "code"), [("0", "not-quarantined"), ("7", "no-such-device"), ("GPU-x", "no-such-device")])
def test_a_device_that_cannot_be_cleared_is_refused_with_a_reason(story: Story, device: str, code: str) -> None:
    refused = clear(story, device)
    assert isinstance(refused, Rejected)
    assert refused.code == code


def test_that_a_task_idles_or_works_again_is_on_record_once(story: Story) -> None:
    story.runs("low", gpus=1)

    def says(**fields: Any) -> list[Any]:
        about = {
            "node": "n1",
            "incarnation": story.state.nodes[0].incarnation,
            "number": 9,
            "job": "low",
            "attempt": 1,
            "task": 0,
        }
        return facts_of_report(story.state, devices.TaskIdleReport(**about, **fields))

    assert says(idle=False) == []
    [fact] = says(duration=60_000_000)
    assert (fact.idle, fact.duration) == (True, 60_000_000)
    story.cycle(fact)
    assert says(duration=60_000_000) == []
    [fact] = says(idle=False)
    assert not fact.idle
