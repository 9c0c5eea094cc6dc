"""What agents report of nodes, devices and tasks, as the fold keeps it."""

from typing import Any

import pytest
from tests.kits.builders import GIB, Sketch, group
from tests.kits.log_builder import Story, digest

from bailiff_core.fold.chosen_devices import chosen_mask, conflict, move_to_chosen
from bailiff_core.fold.nodes import device_numbers_after
from bailiff_core.fold.registry import FOLDS
from bailiff_core.fold.tasks import complete_cancellation
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.state import EnrolledNode, Eviction, Job, Task
from bailiff_core.records import facts

# --- what agents report of tasks and devices, as the fold keeps it: also of what is gone, and again


READING = facts.DeviceReading(device="a-1", memory_used=0, processes=0)


@pytest.fixture
def sketch() -> Sketch:
    return Sketch(a=4, b=4)


def fold(sketch: Sketch, fact: Any) -> None:
    FOLDS[type(fact)](sketch.state, fact)


def of(job: Job, task: int = 0) -> dict[str, Any]:
    """Fields of a report about this task."""
    return {"job": job.id, "attempt": job.attempt, "task": task, "node": "a"}


def pair(sketch: Sketch, phase: Any = "running", **about: Any) -> Job:
    """Two tasks of one GPU each, on node a."""
    return sketch.at(sketch.job("job", group(2, gpus=1), **about), ("a", [0]), ("a", [1]), phase=phase)


def decided(cancelled: bool = False) -> Eviction:
    return Eviction(1, "preemption", 5, preemption=3, cancel_seq=2 if cancelled else None)


# --- tasks


@pytest.mark.parametrize(
    ("before", "reported", "after"),
    [
        ((0, None), {"step_rate_milli": 5}, (5, None)),
        ((3, 100), {"step_rate_milli": 5}, (5, 100)),
        ((3, 100), {"step_rate_milli": 0}, (3, 100)),
        ((3, 100), {"total_steps": 90}, (3, 90)),
        ((3, 100), {"total_steps": 0}, (3, 0)),
    ],
)
def test_progress_replaces_only_what_it_reports(sketch: Sketch, before: Any, reported: dict[str, int], after: Any) -> None:
    job = pair(sketch)
    job.tasks[0].step_rate_milli, job.tasks[0].total_steps = before
    fold(sketch, facts.TaskProgressed(**of(job), **reported))
    assert (job.tasks[0].step_rate_milli, job.tasks[0].total_steps) == after


def test_only_the_first_progress_of_a_task_makes_its_job_a_matter_for_decisions(sketch: Sketch) -> None:
    job, touched = pair(sketch), sketch.state.indices.touched
    fold(sketch, facts.TaskProgressed(**of(job), step=1))
    assert (job.tasks[0].attached, list(touched)) == (True, ["job"]), "it may be migrated off a drained node from now on"
    touched.clear()
    fold(sketch, facts.TaskProgressed(**of(job), step=2))
    assert not touched


def test_idle_gpus_of_a_task_that_is_gone_are_of_no_interest(sketch: Sketch) -> None:
    job = pair(sketch)
    job.idle_recorded = True
    fold(sketch, facts.TaskIdle(**of(job, 2), idle=False))
    assert job.idle_recorded
    fold(sketch, facts.TaskIdle(**of(job, 1), idle=False))
    assert not job.idle_recorded


# --- cancelled evictions


def test_a_cancelled_eviction_of_one_task_is_over_when_its_agent_confirms(sketch: Sketch) -> None:
    job = pair(sketch)
    for task in job.tasks:
        task.eviction, task.noticed = decided(cancelled=task.index == 0), True
    fold(sketch, facts.TaskEvictionCancelled(**of(job, 0)))
    assert (job.tasks[0].eviction, job.tasks[0].noticed) == (None, False)
    fold(sketch, facts.TaskEvictionCancelled(**of(job, 1)))
    assert job.tasks[1].eviction is not None, "that one continues"
    assert job.tasks[1].eviction_cancelled


def test_a_gang_with_enough_tasks_again_after_a_cancelled_eviction_is_not_stale(sketch: Sketch) -> None:
    job = pair(sketch)
    job.tasks[0].eviction = decided(cancelled=True)
    job.stale_since = 1
    fold(sketch, facts.TaskEvictionCancelled(**of(job, 0)))
    assert job.stale_since is None


@pytest.mark.parametrize(
    ("own", "over"),
    [
        (None, False),  # task 1 has not confirmed
        (decided(), True),  # it is evicted by itself anyway
        (decided(cancelled=True), False),
    ],
)
def test_the_eviction_of_a_gang_is_over_when_all_tasks_that_stay_have_confirmed(sketch: Sketch, own: Any, over: bool) -> None:
    job = pair(sketch, "evicting")
    for task in job.tasks:
        task.state = "running"
    job.eviction, job.tasks[1].eviction = decided(cancelled=True), own
    job.tasks[0].eviction_cancelled = True
    complete_cancellation(sketch.state, job)
    assert (job.eviction is None, job.phase) == (over, "running" if over else "evicting")


@pytest.mark.parametrize(
    ("own", "gang", "restored"),
    [
        (decided(cancelled=True), None, "own"),
        (decided(), decided(cancelled=True), "gang"),
        (None, decided(cancelled=True), "gang"),
        (decided(cancelled=True), decided(cancelled=True), "own"),
        (None, None, ""),
    ],
)
def test_a_task_that_refuses_a_cancellation_goes_on_leaving(sketch: Sketch, own: Any, gang: Any, restored: str) -> None:
    state = sketch.state
    job = pair(sketch, "evicting")
    job.eviction = job.tasks[0].eviction = None
    job.tasks[1].eviction_cancelled = True
    if own is not None:
        job.tasks[0].eviction = Eviction(1, "preemption", 5, preemption=3, cancel_seq=own.cancel_seq)
    if gang is not None:
        job.eviction = Eviction(1, "preemption", 5, preemption=3, cancel_seq=2)
    state.seq = 9
    fold(sketch, facts.TaskCancelEvictionRefused(**of(job)))
    for name, eviction, before in (("own", job.tasks[0].eviction, own), ("gang", job.eviction, gang)):
        if eviction is not None:
            found = (eviction.cancel_seq, eviction.started_seq, eviction.preemption)
            assert found == ((None, 9, None) if restored == name else (before.cancel_seq, None, 3)), name
    assert job.tasks[1].eviction_cancelled is (restored != "gang"), "the others of the gang confirm the next one anew"


# --- devices


@pytest.mark.parametrize(("detail", "fault"), [("", "xid"), ("Xid 79: fallen off the bus", "Xid 79: fallen off the bus")])
def test_the_fault_of_a_device_is_the_detail_of_the_report_or_its_reason(sketch: Sketch, detail: str, fault: str) -> None:
    device = sketch.state.nodes[0].devices[1]
    fold(sketch, facts.DeviceUnhealthy(node="a", device="a-1", reason="xid", detail=detail))
    assert device.fault == fault
    fold(sketch, facts.DeviceQuarantined(node="a", device="a-1", reason="foreign", detail=detail, reading=READING))
    assert device.fault == (detail or "foreign")


def rules_for_shares(over_share: str) -> Policy:
    data = DEFAULT_POLICY.model_dump(mode="json")
    data["devices"] = {**data["devices"], "over_share": over_share}
    return Policy.model_validate(data, strict=False)


@pytest.mark.parametrize(
    ("about", "over_share", "marked"),
    [
        ({}, "evict", True),
        ({}, "warn", False),
        ({"attempt": 2}, "evict", False),
        ({"task": 2}, "evict", False),
        ({"job": "other"}, "evict", False),
    ],
)
def test_a_task_above_its_share_is_marked_if_it_is_of_the_present_attempt_and_the_policy_evicts(
    sketch: Sketch, about: dict[str, Any], over_share: str, marked: bool
) -> None:
    sketch.state.policy = rules_for_shares(over_share)
    job = pair(sketch)
    fold(sketch, facts.ShareExceeded(**{**of(job), **about}, device="a-0", used_bytes=2, share_bytes=1))
    assert (job.tasks[0].over_share, list(sketch.state.indices.touched)) == (marked, ["job"] if marked else [])


# --- devices that a node chose by itself


def test_nothing_moves_to_devices_that_the_node_does_not_have(sketch: Sketch) -> None:
    job, other = pair(sketch, "starting"), sketch.running("other", "a", [2])
    move_to_chosen(sketch.state, job, job.tasks[0], ("elsewhere",))
    assert [task.devices for task in (*job.tasks, *other.tasks)] == [0b1, 0b10, 0b100]


@pytest.mark.parametrize(("kind", "profile", "same"), [("mig", "1g.10gb", True), ("mig", "2g.20gb", False), ("gpu", "", False)])
def test_a_task_gets_only_devices_of_the_kind_that_it_was_allocated(sketch: Sketch, kind: str, profile: str, same: bool) -> None:
    node = sketch.state.nodes[0]
    node.devices[0].kind, node.devices[0].profile = "mig", "1g.10gb"
    node.devices[1].kind, node.devices[1].profile = kind, profile
    assert chosen_mask(node, Task(0, 0, 0b1, "starting"), ("a-1",)) == (0b10 if same else None)


@pytest.mark.parametrize(
    ("node", "need", "state", "in_use"),
    [
        ("a", group(gpus=1), "running", True),
        ("a", group(gpus=1), "exited", True),
        ("a", group(gpus=1), "released", False),
        ("a", group(gpus=1), "starting", False),  # it gets another one in exchange
        ("a", group(gpu_share_milli=500), "starting", True),  # others may share it
        ("b", group(gpus=1), "running", False),
    ],
)
def test_which_tasks_keep_a_device_that_another_one_got(sketch: Sketch, node: str, need: Any, state: Any, in_use: bool) -> None:
    job = sketch.running("job", "a", [0], phase="starting")
    other = sketch.at(sketch.job("other", need), (node, [1]))
    other.tasks[0].state = state
    assert conflict(sketch.state, sketch.state.nodes[0], job.tasks[0], 0b10) == ("other" if in_use else None)


# --- nothing is open


def test_the_executor_may_abandon_a_preemption_that_is_over(sketch: Sketch) -> None:
    fold(sketch, facts.PreemptionAbandoned(preemption=7, reason="not needed"))
    assert (sketch.state.preemptions, sketch.state.indices.touched) == ({}, {})


# --- reports about what is unknown or old, and values that a later report leaves as they were


@pytest.mark.parametrize("kind", ["DeviceQuarantined", "DeviceCleared", "DeviceUnhealthy", "DeviceHealthy"])
def test_a_device_that_the_node_does_not_have_changes_nothing(sketch: Sketch, kind: str) -> None:
    before = repr(sketch.state.nodes)
    rest: dict[str, Any] = {
        "DeviceQuarantined": {"reason": "not-free", "reading": READING},
        "DeviceUnhealthy": {"reason": "xid", "code": 79},
    }.get(kind, {})
    fold(sketch, getattr(facts, kind)(node="a", device="none", **rest))
    assert repr(sketch.state.nodes) == before


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
    one_node: Sketch, present: tuple[str, ...], in_use: list[int], numbers: int
) -> None:
    if in_use:
        one_node.running("job", "a", in_use)
    assert device_numbers_after(one_node.state.nodes[0], present) == numbers


# --- what the fold keeps of a node that joins again: faults of devices, shares, its key's newest announcement, silence


CARD = 80 * GIB
HALF = group(gpu_share_milli=500)


@pytest.fixture
def one_node() -> Sketch:
    return Sketch(a=2)


def device(number: int, **about: Any) -> facts.DeviceInfo:
    return facts.DeviceInfo.model_validate({"id": f"a-{number}", "model": "h100", "memory_bytes": CARD, **about})


def joins(one_node: Sketch, *devices: facts.DeviceInfo, node: str = "a", **about: Any) -> None:
    """The node joins, or joins again, with these devices."""
    number = one_node.state.node_numbers.get(node, len(one_node.state.nodes))
    fact = {"node": node, "number": number, "incarnation": "new", "machine_id": f"m-{node}", "boot_id": "new", "report_number": 0}
    fact |= {"cpu_milli": 1000, "memory_bytes": GIB, "devices": devices, **about}
    FOLDS[facts.NodeJoined](one_node.state, facts.NodeJoined.model_validate(fact))


# --- faults of devices


@pytest.mark.parametrize(
    ("before", "reported", "kept"),
    [
        ("xid 79", "ecc", "ecc"),  # what its agent says now counts more
        ("xid 79", "", "xid 79"),
        ("", "", "its agent does not see it any more"),
    ],
)
def test_which_fault_a_device_has_after_its_agent_started_anew(one_node: Sketch, before: str, reported: str, kept: str) -> None:
    known = one_node.state.nodes[0].devices[0]
    known.healthy, known.fault = not before, before
    joins(one_node, device(0, healthy=False, fault=reported), device(1))
    assert one_node.state.nodes[0].devices[0].fault == kept


def test_a_device_that_is_gone_keeps_what_was_recorded_of_it(one_node: Sketch) -> None:
    one_node.running("job", "a", [0])
    slices = (device(2, kind="mig", parent="a-0", profile="1g.10gb"), device(1))
    joins(one_node, *slices)
    gone = one_node.state.nodes[0].devices[0]
    assert (gone.gone, gone.fault) == (True, "its card is partitioned differently now")
    gone.fault = "not-free"
    joins(one_node, *slices)
    assert one_node.state.nodes[0].devices[0].fault == "not-free"


def test_a_whole_gpu_that_is_missing_may_come_back(one_node: Sketch) -> None:
    joins(one_node, device(1))
    missing, there = one_node.state.nodes[0].devices
    assert (missing.gone, missing.healthy, missing.fault) == (False, False, "its agent does not see it any more")
    assert (there.gone, there.healthy, there.fault) == (False, True, "")
    FOLDS[facts.DeviceHealthy](one_node.state, facts.DeviceHealthy(node="a", device="a-0"))
    assert (missing.healthy, one_node.state.nodes[0].capacity.devices) == (True, 0b11)


# --- shares


def test_reserved_shares_are_counted_anew_where_the_memory_of_a_device_is_known_better(one_node: Sketch) -> None:
    one_node.at(one_node.job("job", HALF), ("a", [0]), phase="reserved")
    assert one_node.state.nodes[0].reserved.shares == {0: 500 * CARD}
    joins(one_node, device(0, memory_bytes=CARD // 2), device(1))
    assert one_node.state.nodes[0].reserved.shares == {0: 500 * CARD // 2}
    assert one_node.state.nodes[0].allocated.shares == {}


def test_a_released_task_has_no_share_any_more(one_node: Sketch) -> None:
    job = one_node.at(one_node.job("job", group(2, gpu_share_milli=500)), ("a", [0]), ("a", [0]))
    job.tasks[1].state = "released"
    joins(one_node, device(0), device(1))
    assert one_node.state.nodes[0].allocated.shares == {0: 500 * CARD}


@pytest.mark.parametrize("phase", ["running", "reserved"])
def test_the_number_of_a_missing_device_of_which_a_share_is_in_use_is_not_given_to_another(one_node: Sketch, phase: Any) -> None:
    one_node.at(one_node.job("job", HALF), ("a", [0]), phase=phase)
    joins(one_node, device(7), device(8))
    found = one_node.state.nodes[0].devices
    assert {known.id: known.number for known in found} == {"a-0": 0, "a-7": 1, "a-8": 2}, "a-7 takes the number of a-1"


# --- announcements and silence


@pytest.mark.parametrize(
    ("announced", "enrolled", "known"), [(9, True, 9), (None, True, 5), (9, False, None), (None, False, None)]
)
def test_the_newest_announcement_of_an_enrolled_node_is_kept(
    one_node: Sketch, announced: int | None, enrolled: bool, known: int | None
) -> None:
    if enrolled:
        one_node.state.enrolled["a"] = EnrolledNode("key", "encryption-key", 5)
    joins(one_node, device(0), announced=announced)
    assert [node.announced for node in one_node.state.enrolled.values()] == ([] if known is None else [known])


@pytest.mark.parametrize(("named", "confirmed", "silent"), [("a", ["a"], ["b"]), (None, ["a", "b"], [])])
def test_an_operator_confirms_the_silence_of_one_node_or_of_all(
    one_node: Sketch, named: str | None, confirmed: list[str], silent: list[str]
) -> None:
    one_node.node("b")
    one_node.node("reports")
    for node in list(one_node.state.nodes.values())[:2]:
        node.state = "unreachable"
    one_node.state.silent_nodes = ["a", "b"]
    request = facts.RequestId(source="laptop", id="r-1", digest=digest("r-1"))
    FOLDS[facts.NodeReturned](one_node.state, facts.NodeReturned(request=request, node=named))
    assert [node.name for node in one_node.state.nodes.values() if node.silence_confirmed] == confirmed
    assert one_node.state.silent_nodes == silent


# --- a node that joins again: shares are counted anew, and a device of another identity begins without the faults of the old


@pytest.mark.parametrize("same", [True, False])
def test_only_the_same_device_keeps_its_fault(same: bool) -> None:
    story = Story()
    story.node("n1", gpus=1)
    story.breaks("n1", 0)
    broken = story.state.nodes[0].devices[0]
    assert broken.fault
    again = story.joined("n1", gpus=1, boot=2, sick=(0,))
    if not same:
        again = again.model_copy(update={"devices": (again.devices[0].model_copy(update={"id": "GPU-new"}),)})
    story.cycle(again, after=1000)
    device = story.state.nodes[0].devices[0]
    assert (device.fault, device.fault_since) == ((broken.fault, broken.fault_since) if same else ("", None))


def test_a_job_of_a_class_that_the_policy_lacks_is_an_error_of_the_log() -> None:
    story = Story()
    with pytest.raises(ValueError, match="job x has the class unheard-of, which the policy lacks"):
        story.submit("x", cls="unheard-of")
