"""What the fold keeps of a node that joins again: faults of devices, shares, its key's newest announcement, silence."""

from typing import Any

import pytest
from tests.builders import GIB, Sketch, group
from tests.log_builder import digest

from bailiff_core.fold.registry import FOLDS
from bailiff_core.model.state import EnrolledNode
from bailiff_core.records import facts

CARD = 80 * GIB
HALF = group(gpu_share_milli=500)


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    made.node("a", gpus=2)
    return made


def device(number: int, **about: Any) -> facts.DeviceInfo:
    return facts.DeviceInfo.model_validate({"id": f"a-{number}", "model": "h100", "memory_bytes": CARD, **about})


def joins(sketch: Sketch, *devices: facts.DeviceInfo, node: str = "a", **about: Any) -> None:
    """The node joins, or joins again, with these devices."""
    number = sketch.state.node_numbers.get(node, len(sketch.state.nodes))
    fact = {"node": node, "number": number, "incarnation": "new", "machine_id": f"m-{node}", "boot_id": "new", "report_number": 0}
    fact |= {"cpu_milli": 1000, "memory_bytes": GIB, "devices": devices, **about}
    FOLDS[facts.NodeJoined](sketch.state, facts.NodeJoined.model_validate(fact))


# --- faults of devices


@pytest.mark.parametrize(("fault", "since_now"), [("xid 79", True), ("", False)])
def test_a_device_that_joins_broken_is_broken_since_now(sketch: Sketch, fault: str, since_now: bool) -> None:
    joins(sketch, device(0, healthy=not fault, fault=fault), node="new")
    found = sketch.state.nodes[1].devices[0]
    assert (found.fault, found.fault_since) == (fault, sketch.state.now if since_now else None)


@pytest.mark.parametrize(
    ("before", "reported", "kept"),
    [
        ("xid 79", "ecc", "ecc"),  # what its agent says now counts more
        ("xid 79", "", "xid 79"),
        ("", "", "its agent does not see it any more"),
    ],
)
def test_which_fault_a_device_has_after_its_agent_started_anew(sketch: Sketch, before: str, reported: str, kept: str) -> None:
    known = sketch.state.nodes[0].devices[0]
    known.healthy, known.fault = not before, before
    joins(sketch, device(0, healthy=False, fault=reported), device(1))
    assert sketch.state.nodes[0].devices[0].fault == kept


def test_a_device_that_is_gone_keeps_what_was_recorded_of_it(sketch: Sketch) -> None:
    sketch.running("job", "a", [0])
    slices = (device(2, kind="mig", parent="a-0", profile="1g.10gb"), device(1))
    joins(sketch, *slices)
    gone = sketch.state.nodes[0].devices[0]
    assert (gone.gone, gone.fault) == (True, "its card is partitioned differently now")
    gone.fault = "not-free"
    joins(sketch, *slices)
    assert sketch.state.nodes[0].devices[0].fault == "not-free"


def test_a_whole_gpu_that_is_missing_may_come_back(sketch: Sketch) -> None:
    joins(sketch, device(1))
    missing, there = sketch.state.nodes[0].devices
    assert (missing.gone, missing.healthy, missing.fault) == (False, False, "its agent does not see it any more")
    assert (there.gone, there.healthy, there.fault) == (False, True, "")
    FOLDS[facts.DeviceHealthy](sketch.state, facts.DeviceHealthy(node="a", device="a-0"))
    assert (missing.healthy, sketch.state.nodes[0].capacity.devices) == (True, 0b11)


# --- shares


def test_reserved_shares_are_counted_anew_where_the_memory_of_a_device_is_known_better(sketch: Sketch) -> None:
    sketch.at(sketch.job("job", HALF), ("a", [0]), phase="reserved")
    assert sketch.state.nodes[0].reserved.shares == {0: 500 * CARD}
    joins(sketch, device(0, memory_bytes=CARD // 2), device(1))
    assert sketch.state.nodes[0].reserved.shares == {0: 500 * CARD // 2}
    assert sketch.state.nodes[0].allocated.shares == {}


def test_a_released_task_has_no_share_any_more(sketch: Sketch) -> None:
    job = sketch.at(sketch.job("job", group(2, gpu_share_milli=500)), ("a", [0]), ("a", [0]))
    job.tasks[1].state = "released"
    joins(sketch, device(0), device(1))
    assert sketch.state.nodes[0].allocated.shares == {0: 500 * CARD}


@pytest.mark.parametrize("phase", ["running", "reserved"])
def test_the_number_of_a_missing_device_of_which_a_share_is_in_use_is_not_given_to_another(sketch: Sketch, phase: Any) -> None:
    sketch.at(sketch.job("job", HALF), ("a", [0]), phase=phase)
    joins(sketch, device(7), device(8))
    found = sketch.state.nodes[0].devices
    assert {known.id: known.number for known in found} == {"a-0": 0, "a-7": 1, "a-8": 2}, "a-7 takes the number of a-1"


# --- announcements and silence


@pytest.mark.parametrize(
    ("announced", "enrolled", "known"), [(9, True, 9), (None, True, 5), (9, False, None), (None, False, None)]
)
def test_the_newest_announcement_of_an_enrolled_node_is_kept(
    sketch: Sketch, announced: int | None, enrolled: bool, known: int | None
) -> None:
    if enrolled:
        sketch.state.enrolled["a"] = EnrolledNode("key", "encryption-key", 5)
    joins(sketch, device(0), announced=announced)
    assert [node.announced for node in sketch.state.enrolled.values()] == ([] if known is None else [known])


@pytest.mark.parametrize(("named", "confirmed", "silent"), [("a", ["a"], ["b"]), (None, ["a", "b"], [])])
def test_an_operator_confirms_the_silence_of_one_node_or_of_all(
    sketch: Sketch, named: str | None, confirmed: list[str], silent: list[str]
) -> None:
    sketch.node("b")
    sketch.node("reports")
    for node in list(sketch.state.nodes.values())[:2]:
        node.state = "unreachable"
    sketch.state.silent_nodes = ["a", "b"]
    request = facts.RequestId(source="laptop", id="r-1", digest=digest("r-1"))
    FOLDS[facts.NodeReturned](sketch.state, facts.NodeReturned(request=request, node=named))
    assert [node.name for node in sketch.state.nodes.values() if node.silence_confirmed] == confirmed
    assert sketch.state.silent_nodes == silent
