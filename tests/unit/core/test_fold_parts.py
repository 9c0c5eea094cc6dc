"""Parts of the fold one by one, as tables: times that a clock step moves, what counts as releasing, what is kept for how long."""

from typing import Any

import pytest
from tests.builders import HOUR, MINUTE, Sketch, group

from bailiff_core.fold.allocation import is_releasing, needs_placement, phase_of
from bailiff_core.fold.apply import forget
from bailiff_core.fold.attachments import is_live
from bailiff_core.fold.displacements import is_current, note_displacement, note_reclaimed
from bailiff_core.fold.gang import note_stale
from bailiff_core.fold.jobs import MAX_EVICTION_TIMES
from bailiff_core.fold.log import MAX_REASON, MAX_REJECTED
from bailiff_core.fold.registry import FOLDS
from bailiff_core.lifecycle import idle_since, stale_grace
from bailiff_core.lifecycle.timers import timers_of
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.state import (
    Attachment,
    Device,
    Drain,
    Eviction,
    Job,
    PoolState,
    SeenRequest,
    Selection,
    Task,
)
from bailiff_core.queue import ageing
from bailiff_core.records import decisions, facts
from bailiff_core.records.payload import Payload

JUMP = 7 * MINUTE
READING = facts.DeviceReading(device="a-1", memory_used=0, processes=0)


def fold(state: PoolState, record: Payload) -> None:
    FOLDS[type(record)](state, record)


def rules(**parts: Any) -> Policy:
    data = DEFAULT_POLICY.model_dump(mode="json")
    for name, value in parts.items():
        data[name] = {**data[name], **value} if isinstance(value, dict) else value
    return Policy.model_validate(data, strict=False)


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    made.node("a", gpus=4)
    return made


# --- the clock

JOB_TIMES = (
    "submitted_at", "pending_since", "not_before", "next_request_at", "reserved_until", "last_start", "last_eviction",
    "last_checkpoint", "stale_since", "reservation_until",
)  # fmt: skip


def test_a_clock_step_moves_every_time_of_a_job(sketch: Sketch) -> None:
    job = sketch.running("job", "a", range(2))
    for number, name in enumerate(JOB_TIMES):
        setattr(job, name, 1000 + number)
    job.eviction_times = [3, 5]
    task = job.tasks[0]
    task.idle_since, task.stage_times, task.checkpoint_at = 11, {"noticed": 12}, 13
    task.eviction = Eviction(1, "scaled", 5, started_at=14)
    job.eviction = Eviction(1, "drain", 5, started_at=15)
    fold(sketch.state, facts.ClockStepped(jump=JUMP))
    assert [getattr(job, name) for name in JOB_TIMES] == [1000 + number + JUMP for number in range(len(JOB_TIMES))]
    assert job.eviction_times == [3 + JUMP, 5 + JUMP]
    assert (task.idle_since, task.stage_times, task.checkpoint_at) == (11 + JUMP, {"noticed": 12 + JUMP}, 13 + JUMP)
    assert (task.eviction.started_at, job.eviction.started_at) == (14 + JUMP, 15 + JUMP)


def test_a_clock_step_leaves_times_that_are_not_set(sketch: Sketch) -> None:
    job = sketch.running("job", "a", range(2))
    job.last_start = None
    job.eviction = Eviction(1, "drain", 5)
    fold(sketch.state, facts.ClockStepped(jump=JUMP))
    assert (job.not_before, job.next_request_at) == (0, 0), "0: at once"
    unset = ("reserved_until", "last_start", "last_eviction", "last_checkpoint", "stale_since", "reservation_until")
    assert all(getattr(job, name) is None for name in unset)
    task = job.tasks[0]
    assert (task.idle_since, task.checkpoint_at, job.eviction.started_at) == (None, None, None)


def test_a_clock_step_leaves_the_submission_of_a_job_that_has_ended(sketch: Sketch) -> None:
    job = sketch.job("done")
    job.phase, job.submitted_at = "succeeded", 5
    sketch.state.ended["done"] = 9
    fold(sketch.state, facts.ClockStepped(jump=JUMP))
    assert (job.submitted_at, sketch.state.ended["done"]) == (5, 9 + JUMP)


def test_a_clock_step_moves_every_time_of_the_pool(sketch: Sketch) -> None:
    state = sketch.state
    state.run_time_limits = [(1, "x"), (2, "y")]
    state.reclaimed_at = {"p": 3}
    state.selection = Selection(1, 1, 4, [])
    state.requests = {"r": SeenRequest("d", 5, 1)}
    state.nodes[0].drain, state.draining = Drain(1, "graceful", deadline=6), {0: None}
    fold(state, facts.ClockStepped(jump=JUMP))
    assert state.run_time_limits == [(1 + JUMP, "x"), (2 + JUMP, "y")]
    assert state.reclaimed_at == {"p": 3 + JUMP}
    assert state.selection.deadline == 4 + JUMP
    assert state.requests["r"].seen_at == 5 + JUMP
    assert state.nodes[0].drain.deadline == 6 + JUMP
    state.nodes[0].drain.deadline = state.selection.deadline = None
    fold(state, facts.ClockStepped(jump=JUMP))
    assert (state.nodes[0].drain.deadline, state.selection.deadline) == (None, None)


# --- tasks

DECIDED, STUCK, CANCELLED = (
    Eviction(1, "drain", 5),
    Eviction(1, "drain", 5, stuck=True),
    Eviction(1, "drain", 5, cancel_seq=3),
)


@pytest.mark.parametrize(
    ("state", "gang", "alone", "releasing"),
    [
        ("running", None, None, False),
        ("exited", None, None, True),
        ("running", DECIDED, None, True),
        ("running", None, DECIDED, True),
        ("running", STUCK, None, False),
        ("running", DECIDED, STUCK, False),
        ("exited", STUCK, None, False),
        ("running", CANCELLED, None, False),
        ("exited", CANCELLED, None, True),
        ("running", CANCELLED, DECIDED, True),
        ("running", CANCELLED, CANCELLED, False),
    ],
)
def test_whether_the_resources_of_a_task_are_releasing(state: Any, gang: Any, alone: Any, releasing: bool) -> None:
    job = Sketch().job("job")
    job.eviction = gang
    assert is_releasing(job, Task(0, 0, 1, state, eviction=alone)) is releasing


@pytest.mark.parametrize(
    ("phase", "states", "about", "needs"),
    [
        ("pending", (), {}, True),
        ("paused", (), {}, False),
        ("waiting", (), {}, False),
        ("running", ("running",), {}, True),  # one of two
        ("starting", ("starting",), {}, True),
        ("running", ("running", "running"), {}, False),
        ("reserved", ("reserved",), {}, False),
        ("running", ("running",), {"cancelled": True}, False),
        ("running", ("running",), {"preemption": 7}, False),
        ("running", ("exited",), {}, False),
        ("running", ("released",), {}, False),
    ],
)
def test_whether_a_job_needs_a_placement(phase: Any, states: Any, about: dict[str, Any], needs: bool) -> None:
    job = Sketch().job("job", group(2, gpus=1))
    job.phase, job.tasks = phase, [Task(index, 0, 1, state) for index, state in enumerate(states)]
    for name, value in about.items():
        setattr(job, name, value)
    assert needs_placement(job) is needs


def test_a_job_that_lost_an_evicted_task_may_get_another() -> None:
    job = Sketch().job("job", group(2, gpus=1))
    job.phase, job.tasks = "running", [Task(0, 0, 1, "exited", eviction=DECIDED)]
    assert needs_placement(job)


@pytest.mark.parametrize(
    ("last_start", "states", "phase"),
    [
        (None, ("starting", "running"), "starting"),
        (None, ("running",), "running"),
        (5, ("starting", "running"), "running"),
    ],
)
def test_the_phase_of_a_placed_job(last_start: Any, states: Any, phase: str) -> None:
    job = Sketch().job("job", group(2, gpus=1))
    job.last_start, job.tasks = last_start, [Task(index, 0, 1, state) for index, state in enumerate(states)]
    assert phase_of(job) == phase


# --- gangs below their minimum


@pytest.mark.parametrize(
    ("phase", "tasks", "reservation", "stale"),
    [
        ("running", ("running", "running"), (), False),
        ("running", ("running", "released"), (), True),
        ("starting", ("starting", "exited"), (), True),
        ("running", ("running", "reserved"), (), False),  # a reservation counts as present
        ("running", ("running",), (1,), False),
        ("running", ("exited", "released"), (), False),  # none is left
        ("evicting", ("running", "released"), (), False),
    ],
)
def test_since_when_a_gang_is_below_its_minimum(phase: Any, tasks: Any, reservation: Any, stale: bool) -> None:
    sketch = Sketch()
    job = sketch.job("job", group(2, gpus=1))
    job.phase, job.tasks = phase, [Task(index, 0, 1, state, exit_code=1) for index, state in enumerate(tasks)]
    job.reservation = [Task(index, 0, 1, "reserved") for index in reservation]
    note_stale(sketch.state, job)
    assert job.stale_since == (sketch.state.now if stale else None)
    sketch.state.now += MINUTE
    note_stale(sketch.state, job)
    assert job.stale_since == (sketch.state.now - MINUTE if stale else None), "since it began"


def test_a_gang_of_which_one_has_succeeded_is_not_stale() -> None:
    sketch = Sketch()
    job = sketch.job("job", group(3, gpus=1))
    job.phase = "running"
    job.tasks = [Task(0, 0, 1, "running"), Task(1, 0, 1, "exited", exit_code=0), Task(2, 0, 1, "exited", exit_code=1)]
    job.stale_since = 5
    note_stale(sketch.state, job)
    assert job.stale_since is None


@pytest.mark.parametrize(
    ("own", "policy", "since", "phase", "due"),
    [
        (None, 30, 100, "running", 130),
        (None, 30, 100, "starting", 130),
        (None, 30, 100, "evicting", None),
        (None, 30, None, "running", None),
        (None, None, 100, "running", None),
        (0, 30, 100, "running", 100),
        (5, 30, 100, "running", 105),
        ("never", 30, 100, "running", None),
    ],
)
def test_when_a_stale_gang_is_evicted(own: Any, policy: Any, since: Any, phase: Any, due: Any) -> None:
    sketch = Sketch()
    sketch.state.policy = rules(protections={"stale_gang": policy})
    job = sketch.job("job")
    job.demand = job.demand.model_copy(update={"stale_grace": own})
    job.stale_since, job.phase = since, phase
    assert stale_grace.due(sketch.state, job) == due


@pytest.mark.parametrize(("until", "is_due"), [(40, True), (50, True), (51, False)])
def test_a_backoff_is_over_by_the_clock_whatever_the_number_of_the_job(until: int, is_due: bool) -> None:
    sketch = Sketch()
    sketch.state.now = 50
    job = sketch.job("job", seq=60)
    job.not_before = until
    assert timers_of(sketch.state).due(sketch.state, "backoff") == ([job] if is_due else [])


@pytest.mark.parametrize(
    ("phase", "is_due"), [("starting", True), ("running", True), ("evicting", False), ("reserved", False), ("succeeded", False)]
)
@pytest.mark.parametrize("timer", ["backoff", "next-request"])
def test_only_a_job_that_may_get_tasks_waits_for_the_time_when_it_may(phase: Any, is_due: bool, timer: str) -> None:
    sketch = Sketch()
    sketch.node("a")
    job = sketch.job("job", group(2, gpus=1))
    job.phase, job.tasks = phase, [Task(0, 0, 1, "running")]
    job.not_before = job.next_request_at = sketch.state.now
    assert timers_of(sketch.state).due(sketch.state, timer) == ([job] if is_due else [])


@pytest.mark.parametrize(
    ("tasks", "since"),
    [
        (((1, "running", 5), (1, "running", 7)), 7),  # since the last of them
        (((1, "running", 5), (1, "running", None)), None),
        (((1, "running", 5), (0, "running", None)), 5),  # without GPUs
        (((1, "running", 5), (1, "exited", None)), 5),
        (((1, "starting", 5),), None),
        ((), None),
    ],
)
def test_since_when_the_gpus_of_a_job_are_idle(tasks: Any, since: int | None) -> None:
    job = Sketch().job("job")
    job.tasks = [Task(index, 0, mask, state, idle_since=at) for index, (mask, state, at) in enumerate(tasks)]
    assert idle_since.since(job) == since


@pytest.mark.parametrize(
    ("about", "due"),
    [
        ({}, 65),
        ({"phase": "starting"}, None),
        ({"idle_recorded": True}, None),
        ({"cancelled": True}, None),
        ({"paused_seq": 3}, None),
        ({"paused_seq": 0}, None),
    ],
)
def test_when_the_idle_rule_applies(about: dict[str, Any], due: int | None) -> None:
    sketch = Sketch()
    sketch.state.policy = rules(idle={"after": 60})
    job = sketch.job("job")
    job.phase, job.tasks = "running", [Task(0, 0, 1, "running", idle_since=5)]
    for name, value in about.items():
        setattr(job, name, value)
    assert idle_since.due(sketch.state, job) == due


# --- outcomes of attempts


@pytest.mark.parametrize(
    ("outcome", "cause", "counts", "evicted", "involuntary"),
    [
        ("failed", "exit", (1, 0, 0, 0), False, False),
        ("lost", "exit", (0, 1, 0, 0), False, False),
        ("yielded", "exit", (0, 0, 1, 0), False, False),
        ("preempted", "preemption", (0, 0, 0, 1), True, True),
        ("preempted-unclean", "preemption", (0, 0, 0, 1), True, True),
        ("preempted", "requested", (0, 0, 0, 1), True, True),
        ("preempted", "drain", (0, 0, 0, 1), True, True),
        ("preempted", "policy", (0, 0, 0, 1), True, True),
        ("preempted", "stale-gang", (0, 0, 0, 1), True, True),
        ("preempted", "gang-failure", (0, 0, 0, 1), True, False),
        ("preempted", "device", (0, 0, 0, 1), True, False),
        ("preempted", "paused", (0, 0, 0, 0), True, False),
        ("preempted", "migration", (0, 0, 0, 0), True, False),
        ("preempted", "resize", (0, 0, 0, 0), True, False),
        ("failed", "preemption", (1, 0, 0, 0), True, True),  # it failed while it was evicted
        ("lost", "drain", (0, 1, 0, 0), True, True),
    ],
)
def test_what_an_attempt_counts_as(
    sketch: Sketch, outcome: Any, cause: str, counts: Any, evicted: bool, involuntary: bool
) -> None:
    job = sketch.running("job", "a", range(2))
    fold(sketch.state, decisions.JobRequeued(job="job", attempt=1, outcome=outcome, cause=cause))
    assert (job.failures, job.losses, job.yields, job.evictions) == counts
    assert (job.last_eviction == sketch.state.now) is evicted
    assert job.eviction_times == ([sketch.state.now] if involuntary else [])
    assert (job.phase, job.pending_since, job.tasks) == ("pending", sketch.state.now, [])


def test_the_times_of_evictions_are_bounded_and_the_newest_are_kept(sketch: Sketch) -> None:
    job = sketch.running("job", "a", range(2))
    job.eviction_times = list(range(MAX_EVICTION_TIMES))
    fold(sketch.state, decisions.JobRequeued(job="job", attempt=1, outcome="preempted", cause="drain"))
    assert job.eviction_times == [*range(1, MAX_EVICTION_TIMES), sketch.state.now]


@pytest.mark.parametrize(("not_before", "evicting", "kept"), [(0, True, True), (1, True, False), (0, False, False)])
def test_a_reservation_serves_an_attempt_that_may_start_at_once(
    sketch: Sketch, not_before: int, evicting: bool, kept: bool
) -> None:
    job = sketch.running("job", "a", range(2))
    job.reservation = [Task(0, 0, 0b1100, "reserved")]
    sketch.state.nodes[0].reserved.devices, sketch.state.nodes[0].reserved.slots = 0b1100, 1
    job.eviction = DECIDED if evicting else None
    until = sketch.state.now + not_before if not_before else 0
    fold(sketch.state, decisions.JobRequeued(job="job", attempt=1, outcome="preempted", cause="drain", not_before=until))
    assert bool(job.reservation) is kept
    assert job.not_before == until


# --- who displaced whom


@pytest.mark.parametrize(
    ("phase", "submitted", "name", "current"),
    [
        ("running", 1, "by", True),
        ("running", 1, "by+", True),
        ("pending", 4, "by", True),
        ("running", 5, "by", False),  # a later job of the same name
        ("succeeded", 1, "by", False),
        ("failed", 1, "by", False),
        ("running", 1, "nobody", False),
    ],
)
def test_whether_the_preemptor_of_a_decision_is_still_there(phase: Any, submitted: int, name: str, current: bool) -> None:
    sketch = Sketch()
    sketch.job("by", seq=submitted).phase = phase
    assert is_current(sketch.state, name, 5) is current


@pytest.mark.parametrize(
    ("asks", "loses", "expected"),
    [
        (False, False, {"victim": ["by"], "victim+": ["by"]}),
        (False, True, {"victim+": ["by"]}),
        (True, False, {"victim": ["by+"], "victim+": ["by+"]}),
        (True, True, {"victim+": ["by+"]}),
    ],
)
def test_surplus_is_displaced_apart_from_the_core(asks: bool, loses: bool, expected: Any) -> None:
    state = Sketch().state
    note_displacement(state, "by", "victim", asks_surplus=asks, loses_surplus=loses)
    assert {name: list(by) for name, by in state.displaced_by.items()} == expected


@pytest.mark.parametrize(
    ("preemptor", "losers", "projects"),
    [
        ("a", ["b"], ["b"]),
        ("a", ["c"], ["c", "other"]),
        ("c", ["a", "b"], ["a", "b", "lab"]),
        ("a", ["a"], []),
        ("a", [], []),
    ],
)
def test_which_projects_were_reclaimed_from(preemptor: str, losers: list[str], projects: list[str]) -> None:
    sketch = Sketch()
    parents = {"lab": None, "other": None, "a": "lab", "b": "lab", "c": "other"}
    sketch.state.policy = rules(projects=[{"name": name, "parent": parent} for name, parent in parents.items()])
    note_reclaimed(sketch.state, preemptor, losers)
    assert sorted(sketch.state.reclaimed_at) == projects
    assert set(sketch.state.reclaimed_at.values()) <= {sketch.state.now}


# --- retention, rejections, attachments


@pytest.mark.parametrize(("age", "kept"), [(HOUR - 1, True), (HOUR, False), (HOUR + 1, False)])
def test_how_long_ended_jobs_and_request_ids_are_kept(age: int, kept: bool) -> None:
    sketch = Sketch()
    state = sketch.state
    state.policy = rules(retention={"ended_jobs": "1h", "request_ids": "1h"})
    sketch.job("done")
    state.ended["done"] = state.now - age
    state.requests["r"] = SeenRequest("d", state.now - age, 1)
    forget(state)
    assert ("done" in state.jobs, "done" in state.ended, "r" in state.requests) == (kept, kept, kept)


def rejected(source: str, code: str = "not-permitted", reason: str = "", count: int = 1) -> facts.InputRejected:
    return facts.InputRejected(
        topic="bailiff.requests", partition=0, offset=0, digest="0" * 64, code=code, reason=reason, source=source, count=count
    )


def test_rejections_of_a_source_are_counted_per_minute(sketch: Sketch) -> None:
    state, began = sketch.state, sketch.state.now
    for after, expected in ((0, 2), (MINUTE - 1, 4), (MINUTE, 2), (2 * MINUTE - 1, 4), (3 * MINUTE, 2)):
        state.now = began + after
        fold(state, rejected("x", count=2))
        assert state.rejections["x"].count == expected, after
    state.now += MINUTE
    fold(state, rejected("y"))
    assert list(state.rejections) == ["y"], "those of an earlier minute are forgotten"


def test_the_newest_rejections_are_kept_for_people(sketch: Sketch) -> None:
    state = sketch.state
    for number in range(MAX_REJECTED + 1):
        fold(state, rejected(f"s{number}", reason="r" * (MAX_REASON + 1)))
    assert len(state.rejected) == MAX_REJECTED
    assert "not-permitted s0" not in state.rejected
    state.now += MINUTE
    fold(state, rejected("s1", count=3))
    found = state.rejected["not-permitted s1"]
    assert (found.count, found.first, found.last) == (4, state.now - MINUTE, state.now)
    assert list(state.rejected)[-1] == "not-permitted s1"
    assert len(state.rejected["not-permitted s2"].reason) == MAX_REASON


@pytest.mark.parametrize(
    ("about", "live"),
    [
        ({}, True),
        ({"granted_at": MINUTE - 1}, True),
        ({"granted_at": MINUTE}, False),
        ({"granted_at": MINUTE, "ready": True}, True),
        ({"attempt": 2}, False),
        ({"task": 1}, False),
        ({"job": "other"}, False),
        ({"node": "z"}, False),
        ({"incarnation": "other"}, False),
    ],
)
def test_whether_an_attachment_may_go_on(sketch: Sketch, about: dict[str, Any], live: bool) -> None:
    sketch.running("job", "a", range(2))
    given = {"job": "job", "attempt": 1, "task": 0, "node": "a", "incarnation": "i-a", "granted_at": 0, **about}
    attachment = Attachment(user="u", **{**given, "granted_at": sketch.state.now - given["granted_at"]})
    assert is_live(sketch.state, attachment) is live
    sketch.state.jobs["job"].tasks[0].state = "exited"
    assert not is_live(sketch.state, attachment)


@pytest.mark.parametrize(
    ("leases", "margins", "expected"),
    [((600, 600), (60, 60), 600), ((600, 300), (60, 60), 600), ((300, 600), (60, 60), 600), ((600, 600), (60, 30), 630)],
)
def test_a_new_policy_does_not_shorten_what_a_silent_agent_was_promised(
    sketch: Sketch, leases: Any, margins: Any, expected: int
) -> None:
    before, after = (rules(nodes={"lease": lease, "lost_margin": margin}) for lease, margin in zip(leases, margins, strict=True))
    sketch.state.policy = before
    sketch.state.nodes[0].lease = leases[0]
    fold(sketch.state, facts.PolicyApplied(policy=after))
    assert sketch.state.nodes[0].lease == expected


# --- devices


def fault(sketch: Sketch) -> Any:
    device = sketch.state.nodes[0].devices[1]
    return device.fault, device.fault_since, device.healthy, sketch.state.nodes[0].quarantined, device.clear_seq


def test_the_first_fault_of_a_device_says_since_when(sketch: Sketch) -> None:
    state, began = sketch.state, sketch.state.now
    dirty = facts.DeviceQuarantined(node="a", device="a-1", reason="not-free", reading=READING)
    broken = facts.DeviceUnhealthy(node="a", device="a-1", reason="xid")
    fold(state, dirty)
    assert fault(sketch) == ("not-free", began, True, 0b10, None)
    state.now += MINUTE
    fold(state, dirty)
    fold(state, broken)
    assert fault(sketch) == ("xid", began, False, 0b10, None)
    assert state.nodes[0].capacity.devices == 0b1101
    fold(state, facts.DeviceCleared(node="a", device="a-1"))
    assert fault(sketch) == ("xid", began, False, 0, None), "it is unhealthy still"
    fold(state, facts.DeviceHealthy(node="a", device="a-1"))
    assert fault(sketch) == ("", None, True, 0, None)
    assert state.nodes[0].capacity.devices == 0b1111
    fold(state, broken)
    assert fault(sketch)[1] == began + MINUTE, "a new fault"
    fold(state, dirty)
    fold(state, facts.DeviceHealthy(node="a", device="a-1"))
    assert fault(sketch) == ("not-free", began + MINUTE, True, 0b10, None), "it is quarantined still"
    fold(state, facts.DeviceCleared(node="a", device="a-1"))
    assert fault(sketch) == ("", None, True, 0, None)


def test_a_device_that_is_gone_does_not_become_healthy(sketch: Sketch) -> None:
    device: Device = sketch.state.nodes[0].devices[1]
    device.gone, device.healthy = True, False
    fold(sketch.state, facts.DeviceHealthy(node="a", device="a-1"))
    assert not device.healthy


@pytest.mark.parametrize(
    ("device", "state", "failed"), [("a-1", "running", True), ("a-2", "running", False), ("a-1", "reserved", False)]
)
def test_tasks_on_a_broken_device_are_marked(sketch: Sketch, device: str, state: Any, failed: bool) -> None:
    job = sketch.running("job", "a", [0, 1])
    job.tasks[0].state = state
    fold(sketch.state, facts.DeviceUnhealthy(node="a", device=device, reason="xid"))
    assert job.tasks[0].device_failed is failed


# --- ageing


def aged(evictions: int | None = 2, waiting: int | None = 60, boost: int = 30) -> Policy:
    return rules(protections={"ageing": {"boost": boost, "evictions": evictions, "waiting": waiting}})


def waiter(sketch: Sketch, **about: Any) -> Job:
    job = sketch.job("job", priority=50)
    job.pending_since = sketch.state.now
    for name, value in about.items():
        setattr(job, name, value)
    return job


@pytest.mark.parametrize(
    ("policy", "about", "waited", "effective", "due"),
    [
        (rules(), {}, 999, 50, None),
        (aged(), {}, 59, 50, 60),
        (aged(), {}, 60, 80, 0),
        (aged(), {"priority": 80}, 60, 80, None),
        (aged(waiting=None), {}, 999, 50, None),
        (aged(), {"evictions": 1}, 0, 50, 60),
        (aged(), {"evictions": 2}, 0, 80, 0),
        (aged(evictions=None), {"evictions": 9}, 0, 50, 60),
        (aged(), {"phase": "running", "priority": 80}, 0, 80, None),  # keeps its boost
        (aged(), {"phase": "running"}, 999, 50, None),
        (aged(), {"priority": 80}, 59, 50, 0),  # after an eviction it has to be earned again
        (rules(), {"priority": 80}, 0, 50, 0),  # the policy has no ageing any more
        (aged(boost=50), {"evictions": 2}, 0, 99, 0),  # below every class that is not preemptible
        (aged(boost=49), {"evictions": 2}, 0, 99, 0),
        (aged(boost=48), {"evictions": 2}, 0, 98, 0),
        (aged(), {"evictions": 2, "base_priority": 125}, 0, 125, 0),
        (aged(), {"evictions": 2, "cancelled": True}, 0, 80, None),
        (aged(), {"evictions": 2, "phase": "succeeded"}, 0, 80, None),
    ],
)
def test_which_priority_a_job_has_and_from_when(policy: Policy, about: Any, waited: int, effective: int, due: Any) -> None:
    """due: after the job joined the queue."""
    sketch = Sketch()
    sketch.state.policy = policy
    job = waiter(sketch, **about)
    sketch.state.now += waited
    assert ageing.effective(sketch.state, job) == effective
    found = ageing.due(sketch.state, job)
    assert (None if found is None else found - job.pending_since) == due


@pytest.mark.parametrize(
    ("policy", "about", "waited", "reason"),
    [
        (rules(), {}, 0, "the policy has no ageing any more"),
        (aged(waiting=60_000_000), {}, 60_000_000, "pending for longer than 60 s"),
        (aged(waiting=60_000_000), {}, 59_999_999, "its pending time restarted"),
        (aged(evictions=1), {"evictions": 1}, 0, "it was evicted 1 time"),
        (aged(), {"evictions": 3}, 0, "it was evicted 3 times"),
    ],
)
def test_why_a_job_has_its_priority(policy: Policy, about: Any, waited: int, reason: str) -> None:
    sketch = Sketch()
    sketch.state.policy = policy
    job = waiter(sketch, **about)
    sketch.state.now += waited
    assert ageing.reason(sketch.state, job) == reason


def test_the_deadline_of_a_drain_that_has_been_taken_back_drains_nothing(sketch: Sketch) -> None:
    sketch.state.draining.clear()
    fold(sketch.state, decisions.DrainDeadlineReached(node="a"))
    assert sketch.state.nodes[0].drain is None
