"""Requests and reports of agents, as admission receives them."""

from tests.kits.log_builder import GIB, NEW_YEAR, SECOND, digest

from bailiff_bus.messages.reports import NodeInventory
from bailiff_core.admission import ReceivedRequest, Rejected, admit_received
from bailiff_core.records.facts import DeviceInfo
from bailiff_service.clock_and_ids import ClockAndIds


def ask(story, body, actor="alice", auth="none"):
    """What admission makes of the request."""
    return admit_received(story.state, ReceivedRequest("laptop", f"q-{story.state.seq}", digest("c"), None, actor, auth, body))


def refused(story, body, code, **how):
    """The reason for which it is rejected with this code."""
    found = ask(story, body, **how)
    assert isinstance(found, Rejected), found
    assert found.code == code, found
    return found.reason


def report(kind, number=1, node="n1", life=1, **fields):
    return kind(node=node, incarnation=f"{node}-life-{life}", number=number, **fields)


def announced(node="n1", life=2, machine=None, boot=1, number=0, tasks=(), gpus=8):
    return NodeInventory(
        node=node,
        incarnation=f"{node}-life-{life}",
        number=number,
        machine_id=machine or f"machine-{node}",
        boot_id=f"{node}-boot-{boot}",
        release="0.1.0",
        cpu_milli=1_000_000,
        memory_bytes=1000 * GIB,
        devices=tuple(DeviceInfo(id=f"GPU-{node}-{n}", model="h100", memory_bytes=80 * GIB) for n in range(gpus)),
        tasks=tuple(tasks),
    )


class Watch:
    """Clocks that the test moves."""

    def __init__(self):
        self.wall, self.boot = NEW_YEAR, 1_000 * SECOND
        self.clock_and_ids = ClockAndIds(wall=lambda: self.wall, boot=lambda: self.boot, random_bytes=lambda: b"0" * 16)

    def passes(self, duration):
        self.wall += duration
        self.boot += duration
