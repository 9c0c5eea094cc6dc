"""Reports about what is unknown or old, and values that a later report leaves as they were."""

from typing import Any

import pytest
from tests.builders import GIB, MINUTE, Sketch, group
from tests.unit.core_protections.kit import rules

from bailiff_core.actions.migrate import moves_off_drained_nodes
from bailiff_core.fold.nodes import device_numbers_after
from bailiff_core.fold.registry import FOLDS
from bailiff_core.lifecycle.operator_actions import paused_jobs
from bailiff_core.model.state import Drain, EnrolledNode, Eviction, PoolState
from bailiff_core.records import facts
from bailiff_core.records.payload import Payload

READING = facts.DeviceReading(device="a-1", memory_used=0, processes=0)


def fold(state: PoolState, record: Payload) -> None:
    FOLDS[type(record)](state, record)


def request(name: str) -> facts.RequestId:
    return facts.RequestId(source="laptop", id=name, digest="0" * 64)


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    made.node("a", gpus=2)
    made.node("b", gpus=2)
    return made


@pytest.mark.parametrize("kind", ["DeviceQuarantined", "DeviceCleared", "DeviceUnhealthy", "DeviceHealthy"])
def test_a_device_that_the_node_does_not_have_changes_nothing(sketch: Sketch, kind: str) -> None:
    before = repr(sketch.state.nodes)
    rest: dict[str, Any] = {
        "DeviceQuarantined": {"reason": "not-free", "reading": READING}, "DeviceUnhealthy": {"reason": "xid", "code": 79},
    }.get(kind, {})  # fmt: skip
    fold(sketch.state, getattr(facts, kind)(node="a", device="none", **rest))
    assert repr(sketch.state.nodes) == before


@pytest.mark.parametrize(("detail", "fault"), [("left by job x", "left by job x"), ("", "not-free")])
def test_what_is_known_of_a_fault_is_shown_else_its_kind(sketch: Sketch, detail: str, fault: str) -> None:
    fold(sketch.state, facts.DeviceQuarantined(node="a", device="a-1", reason="not-free", detail=detail, reading=READING))
    assert sketch.state.nodes[0].devices[1].fault == fault
    fold(sketch.state, facts.DeviceUnhealthy(node="a", device="a-0", reason="xid", detail=detail, code=79))
    assert sketch.state.nodes[0].devices[0].fault == (detail or "xid")


@pytest.mark.parametrize(
    ("about", "rule", "marked"),
    [
        ({}, "evict", True),
        ({}, "warn", False),
        ({"attempt": 2}, "evict", False),
        ({"task": 1}, "evict", False),
        ({"job": "other"}, "evict", False),
    ],
)
def test_whose_task_exceeds_its_share(sketch: Sketch, about: dict[str, Any], rule: str, marked: bool) -> None:
    sketch.state.policy = rules(devices={"over_share": rule})
    job = sketch.running("job", "a", [0])
    at = {"job": "job", "attempt": 1, "task": 0, "node": "a", **about}
    fold(sketch.state, facts.ShareExceeded(**at, device="a-0", used_bytes=2, share_bytes=1))
    assert job.tasks[0].over_share is marked
    assert ("job" in sketch.state.indices.touched) is marked


def test_a_report_of_progress_leaves_what_it_does_not_say(sketch: Sketch) -> None:
    job = sketch.running("job", "a", [0])
    at = {"job": "job", "attempt": 1, "task": 0, "node": "a"}
    fold(sketch.state, facts.TaskProgressed(**at, step=3, total_steps=9, step_rate_milli=500))
    assert "job" in sketch.state.indices.touched, "it is attached now, so it may migrate"
    sketch.state.indices.touched.clear()
    fold(sketch.state, facts.TaskProgressed(**at, step=4))
    task = job.tasks[0]
    assert (task.step, task.total_steps, task.step_rate_milli) == (4, 9, 500)
    fold(sketch.state, facts.TaskProgressed(**at, step=5, total_steps=8, step_rate_milli=600))
    assert (task.step, task.total_steps, task.step_rate_milli) == (5, 8, 600)
    assert not sketch.state.indices.touched


def test_one_silent_node_is_declared_to_have_returned_or_all(sketch: Sketch) -> None:
    state = sketch.state
    for node in state.nodes.values():
        node.state = "unreachable"
    state.silent_nodes = ["a", "b"]
    fold(state, facts.NodeReturned(request=request("1"), node="b"))
    assert [node.silence_confirmed for node in state.nodes.values()] == [False, True]
    assert state.silent_nodes == ["a"]
    fold(state, facts.NodeReturned(request=request("2")))
    assert [node.silence_confirmed for node in state.nodes.values()] == [True, True]
    assert state.silent_nodes == []


def test_a_loss_that_was_accepted_and_reconciled_is_not_opened_again(sketch: Sketch) -> None:
    state = sketch.state
    for number, (seq, opened) in enumerate(((5, True), (5, False), (4, False), (6, True))):
        fold(state, facts.LogTruncated(request=request(f"{number}"), epoch=1, seq=seq))
        assert state.truncation_unreconciled is opened, seq
        fold(state, facts.TruncationReconciled())


@pytest.mark.parametrize(("announced", "enrolled", "kept"), [(7, True, 7), (None, True, 3), (7, False, None)])
def test_when_an_enrolled_node_announced_itself_is_kept(
    sketch: Sketch, announced: int | None, enrolled: bool, kept: int | None
) -> None:
    state = sketch.state
    if enrolled:
        state.enrolled["a"] = EnrolledNode("k" * 43, "e" * 43, announced=3)
    joined = facts.NodeJoined(
        node="a", number=0, incarnation="i", machine_id="m-a", boot_id="b", report_number=0, cpu_milli=1000, memory_bytes=1,
        max_tasks=1, devices=(), announced=announced,
    )  # fmt: skip
    fold(state, joined)
    assert (state.enrolled["a"].announced if enrolled else None) == kept


GRACEFUL = Drain(1, "graceful")


@pytest.mark.parametrize(
    ("about", "of_task", "drains", "may_move"),
    [
        ({}, {}, {"a": GRACEFUL}, True),
        ({}, {}, {"a": Drain(1, "quick"), "b": GRACEFUL}, True),
        ({}, {}, {"a": Drain(1, "quick")}, False),
        ({}, {}, {}, False),
        ({"phase": "pending"}, {}, {"a": GRACEFUL}, False),
        ({"suspended_reason": "out of range"}, {}, {"a": GRACEFUL}, False),
        ({"tasks": []}, {}, {"a": GRACEFUL}, False),
        ({}, {"state": "starting"}, {"a": GRACEFUL}, False),
        ({}, {"attached": False}, {"a": GRACEFUL}, False),
        ({}, {"eviction": Eviction(1, "device", 0)}, {"a": GRACEFUL}, False),
    ],
)
def test_which_jobs_move_off_a_node_that_is_drained_gracefully(
    sketch: Sketch, about: dict[str, Any], of_task: dict[str, Any], drains: dict[str, Drain], may_move: bool
) -> None:
    job = sketch.at(sketch.job("gang", group(2, gpus=1)), ("a", [0]), ("b", [0]))
    for task in job.tasks:
        task.attached = True
    for name, value in of_task.items():
        setattr(job.tasks[1], name, value)
    for name, value in about.items():
        setattr(job, name, value)
    for name, drain in drains.items():
        node = sketch.state.nodes[sketch.state.node_numbers[name]]
        node.drain, sketch.state.draining[node.number] = drain, None
    assert moves_off_drained_nodes(sketch.state, job) is may_move


@pytest.mark.parametrize(
    ("idle", "reason", "text"),
    [(True, "idle for 1 h", "idle for 1 h"), (True, "", "pause requested"), (False, "tea", "pause requested: tea")],
)
def test_why_a_job_is_paused(sketch: Sketch, idle: bool, reason: str, text: str) -> None:
    job = sketch.running("job", "a", [0], age=MINUTE)
    job.paused_seq, job.idle_recorded, job.pause_reason = 5, idle, reason
    sketch.state.indices.touched["job"] = None
    (found,) = paused_jobs(sketch.state)
    assert (found.cause, found.reason) == ("paused", text)  # type: ignore[attr-defined]
    job.cancelled = True
    assert not list(paused_jobs(sketch.state))


@pytest.mark.parametrize(
    ("present", "in_use", "numbers"),
    [
        (("a-0", "a-1"), [], 2),
        (("a-0",), [], 2),
        (("a-0", "new"), [], 2),  # the new device gets the number of the one that is gone
        (("a-0", "new"), [1], 3),
        (("a-0", "a-1", "new"), [], 3),
        (("new", "newer"), [], 2),
        (("new", "newer", "newest"), [0], 4),
    ],
)
def test_how_many_device_numbers_a_node_has_once_it_joins_again(
    sketch: Sketch, present: tuple[str, ...], in_use: list[int], numbers: int
) -> None:
    if in_use:
        sketch.running("job", "a", in_use)
    assert device_numbers_after(sketch.state.nodes[0], present) == numbers


@pytest.mark.parametrize("phase", ["running", "reserved"])
def test_a_share_of_a_device_is_counted_anew_where_the_device_is_of_another_size(sketch: Sketch, phase: Any) -> None:
    sketch.at(sketch.job("job", group(gpu_share_milli=500)), ("a", [0]), phase=phase)
    devices = tuple(facts.DeviceInfo(id=f"a-{number}", model="h100", memory_bytes=40 * GIB) for number in range(2))
    joined = facts.NodeJoined(
        node="a", number=0, incarnation="i", machine_id="m-a", boot_id="b", report_number=0, cpu_milli=1000, memory_bytes=GIB,
        max_tasks=9, devices=devices,
    )  # fmt: skip
    fold(sketch.state, joined)
    node = sketch.state.nodes[0]
    of_job = node.reserved if phase == "reserved" else node.allocated
    assert of_job.shares == {0: 500 * 40 * GIB}
