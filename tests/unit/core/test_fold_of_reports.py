"""What agents report of tasks and devices, as the fold keeps it: each part by itself, reports about what is gone, and repeats."""

from typing import Any

import pytest
from tests.builders import Sketch, group

from bailiff_core.fold.chosen_devices import chosen_mask, conflict, move_to_chosen
from bailiff_core.fold.registry import FOLDS
from bailiff_core.fold.selection import close_request
from bailiff_core.fold.tasks import complete_cancellation
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.state import Eviction, Job, Task
from bailiff_core.records import facts

READING = facts.DeviceReading(device="a-1", memory_used=0, processes=0)


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    made.node("a", gpus=4)
    made.node("b", gpus=4)
    return made


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


@pytest.mark.parametrize(("leaves", "runs"), [(True, True), (False, False)])
def test_a_gang_runs_although_a_task_that_is_evicted_singly_has_not_started(sketch: Sketch, leaves: bool, runs: bool) -> None:
    job = pair(sketch, "starting")
    job.last_start = None
    job.tasks[1].eviction = decided() if leaves else None
    fold(sketch, facts.TaskStarted(**of(job)))
    assert (job.phase, job.last_start) == (("running", sketch.state.now) if runs else ("starting", None))


@pytest.mark.parametrize(("leaves", "starting"), [(False, True), (True, False)])
def test_only_tasks_that_are_to_stay_count_as_starting(sketch: Sketch, leaves: bool, starting: bool) -> None:
    job = sketch.at(sketch.job("job", group(3, gpus=1)), ("a", [0]), ("a", [1]), ("a", [2]))
    job.tasks[1].state = "starting"
    job.tasks[1].eviction = decided() if leaves else None
    fold(sketch, facts.TaskReleased(**of(job, 2)))
    assert ("job" in sketch.state.starting) is starting


@pytest.mark.parametrize(
    ("on_term", "done", "reported"), [("finish", False, True), ("finish", True, True), (None, True, True), (None, False, False)]
)
def test_a_task_reports_that_it_is_done_itself_or_its_job_file_does(
    sketch: Sketch, on_term: Any, done: bool, reported: bool
) -> None:
    job = pair(sketch)
    if on_term:
        job.demand = job.demand.model_copy(update={"on_term": on_term})
    fold(sketch, facts.TaskExited(**of(job), exit_code=0, done=done))
    assert job.tasks[0].reported_done is reported


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


def test_an_eviction_that_nobody_cancelled_continues_whatever_agents_report(sketch: Sketch) -> None:
    job = pair(sketch, "evicting")
    for task in job.tasks:
        task.state, task.eviction_cancelled = "running", True
    complete_cancellation(sketch.state, job)
    assert (job.eviction is not None, job.phase) == (True, "evicting")


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


@pytest.mark.parametrize(
    "fact",
    [
        facts.DeviceQuarantined(node="a", device="gone", reason="not-free", reading=READING),
        facts.DeviceCleared(node="a", device="gone"),
        facts.DeviceUnhealthy(node="a", device="gone", reason="xid"),
        facts.DeviceHealthy(node="a", device="gone"),
    ],
)
def test_a_report_about_a_device_that_the_node_has_no_longer_changes_nothing(sketch: Sketch, fact: facts.DeviceFact) -> None:
    state, node = sketch.state, sketch.state.nodes[0]
    state.indices.retry_unschedulable = False
    fold(sketch, fact)
    assert (node.quarantined, node.capacity.devices, state.indices.retry_unschedulable) == (0, 0b1111, False)
    assert all(device.healthy and not device.fault for device in node.devices)


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


def test_an_answer_without_an_open_selection_closes_none(sketch: Sketch) -> None:
    sketch.state.indices.retry_unschedulable = False
    close_request(sketch.state, 3)
    assert (sketch.state.selection, sketch.state.indices.retry_unschedulable) == (None, False)


def test_the_executor_may_abandon_a_preemption_that_is_over(sketch: Sketch) -> None:
    fold(sketch, facts.PreemptionAbandoned(preemption=7, reason="not needed"))
    assert (sketch.state.preemptions, sketch.state.indices.touched) == ({}, {})
