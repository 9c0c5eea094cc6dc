"""The fold: what a clock step moves, what is kept for how long, and rare facts."""

from typing import Any

import pytest
from tests.kits.builders import MINUTE, Sketch, group
from tests.kits.log_builder import digest
from tests.kits.log_builder import policy as rules
from tests.kits.story_script import play

from bailiff_core.fold import close_cycle
from bailiff_core.fold.allocation import needs_placement, phase_of
from bailiff_core.fold.apply import FORGOTTEN_KEPT, STALE_KEPT, forget
from bailiff_core.fold.attachments import is_live, live_attachments
from bailiff_core.fold.dependencies import note_dependencies
from bailiff_core.fold.displacements import is_current, note_displacement
from bailiff_core.fold.eviction_causes import MAX_EVICTION_TIMES
from bailiff_core.fold.log import MAX_REASON, MAX_REJECTED, request_key
from bailiff_core.fold.pending_queue import dequeue
from bailiff_core.fold.registry import FOLDS
from bailiff_core.fold.selection import close_request
from bailiff_core.lifecycle import idle_since, stale_grace
from bailiff_core.lifecycle.timers import timers_of
from bailiff_core.model.certificate import RootKeyChange
from bailiff_core.model.demand import Dependency, JobDemand, TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Policy, Topology
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import (
    Attachment,
    BudgetUse,
    Drain,
    Eviction,
    Job,
    OpenRequest,
    PoolState,
    SeenRequest,
    Selection,
    ShareTurn,
    Task,
)
from bailiff_core.placement.feasibility import could_ever_fit
from bailiff_core.queue import ageing
from bailiff_core.records import decisions, facts
from bailiff_core.records.payload import Payload

# --- times that a clock step moves, what counts as releasing, what is kept for how long


JUMP = 7 * MINUTE
READING = facts.DeviceReading(device="a-1", memory_used=0, processes=0)


def fold(state: PoolState, record: Payload) -> None:
    FOLDS[type(record)](state, record)


@pytest.fixture
def sketch() -> Sketch:
    return Sketch(a=4)


# --- the clock

JOB_TIMES = (
    *("submitted_at", "pending_since", "not_before", "next_request_at", "reserved_until", "last_start", "last_eviction"),
    *("last_checkpoint", "stale_since", "reservation_until", "assigned_at"),
)


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
    state.share_turns = {"": ShareTurn(7, {"p": 500})}
    state.selection = Selection(1, 1, 4, [])
    state.requests = {"r": SeenRequest("d", 5, 1)}
    state.nodes[0].drain, state.draining = Drain(1, "graceful", deadline=6), {0: None}
    fold(state, facts.ClockStepped(jump=JUMP))
    assert state.run_time_limits == [(1 + JUMP, "x"), (2 + JUMP, "y")]
    assert state.reclaimed_at == {"p": 3 + JUMP}
    assert state.share_turns == {"": ShareTurn(7 + JUMP, {"p": 500})}
    assert state.selection.deadline == 4 + JUMP
    assert state.requests["r"].seen_at == 5 + JUMP
    assert state.nodes[0].drain.deadline == 6 + JUMP
    state.nodes[0].drain.deadline = state.selection.deadline = None
    fold(state, facts.ClockStepped(jump=JUMP))
    assert (state.nodes[0].drain.deadline, state.selection.deadline) == (None, None)


# --- tasks

DECIDED, STUCK, CANCELLED = (Eviction(1, "drain", 5), Eviction(1, "drain", 5, stuck=True), Eviction(1, "drain", 5, cancel_seq=3))


def test_a_job_that_lost_an_evicted_task_may_get_another() -> None:
    job = Sketch().job("job", group(2, gpus=1))
    job.phase, job.tasks = "running", [Task(0, 0, 1, "exited", eviction=DECIDED)]
    assert needs_placement(job)


@pytest.mark.parametrize(
    ("last_start", "states", "phase"),
    [(None, ("starting", "running"), "starting"), (None, ("running",), "running"), (5, ("starting", "running"), "running")],
)
def test_the_phase_of_a_placed_job(last_start: Any, states: Any, phase: str) -> None:
    job = Sketch().job("job", group(2, gpus=1))
    job.last_start, job.tasks = last_start, [Task(index, 0, 1, state) for index, state in enumerate(states)]
    assert phase_of(job) == phase


# --- gangs below their minimum


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


def test_the_times_of_evictions_are_bounded_and_the_newest_are_kept(sketch: Sketch) -> None:
    job = sketch.running("job", "a", range(2))
    job.eviction_times = list(range(MAX_EVICTION_TIMES))
    fold(sketch.state, decisions.JobRequeued(job="job", attempt=1, outcome="preempted", cause="drain"))
    assert job.eviction_times == [*range(1, MAX_EVICTION_TIMES), sketch.state.now]


# --- who displaced whom


@pytest.mark.parametrize(("seq", "current"), [(4, False), (5, False), (6, True)])
def test_a_later_job_of_the_same_name_displaced_nobody(seq: int, current: bool) -> None:
    sketch = Sketch()
    sketch.job("by", seq=5)
    assert is_current(sketch.state, "by", seq) is is_current(sketch.state, "by+", seq) is current


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_cancelled_job_requests_no_more_tasks(cancelled: bool) -> None:
    job = Sketch().job("job", group(2, gpus=1))
    job.phase, job.tasks, job.cancelled = "running", [Task(0, 0, 1, "running")], cancelled
    assert needs_placement(job) is not cancelled


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


# --- retention, rejections, attachments


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


# --- the log itself as the fold keeps it: records of an unknown type, accepted truncations, and what is kept only so long


REQUEST = facts.RequestId(source="laptop", id="r-1", digest=digest("r-1"))


@pytest.mark.parametrize(("epoch", "seq", "holds"), [(2, 5, False), (2, 4, False), (1, 9, False), (2, 6, True), (3, 0, True)])
def test_only_the_loss_of_more_records_than_were_accepted_before_stops_starts(epoch: int, seq: int, holds: bool) -> None:
    state = PoolState()
    fold(state, facts.LogTruncated(request=REQUEST, epoch=2, seq=5))
    assert state.truncation_unreconciled
    fold(state, facts.TruncationReconciled())
    assert not state.truncation_unreconciled
    fold(state, facts.LogTruncated(request=REQUEST, epoch=epoch, seq=seq))
    assert (state.truncation_unreconciled, state.accepted_truncation) == (holds, (epoch, seq) if holds else (2, 5))


def test_a_job_whose_class_a_new_policy_lacks_keeps_its_priority(sketch: Sketch) -> None:
    kept, other = sketch.job("kept"), sketch.job("other")
    kept.class_name, kept.priority = "dropped", 33
    policy = DEFAULT_POLICY.model_copy(
        update={
            "priority_classes": tuple(
                entry.model_copy(update={"value": 60}) if entry.name == "train" else entry
                for entry in DEFAULT_POLICY.priority_classes
            )
        }
    )
    fold(sketch.state, facts.PolicyApplied(policy=policy))
    assert (kept.priority, other.priority) == (33, 60)


def test_a_job_for_which_a_policy_lacked_a_topology_may_fit_under_the_next(sketch: Sketch) -> None:
    sketch.state.nodes[0].labels["rack"] = "r"
    demand = sketch.job("job").demand.model_copy(update={"topology": TopologyRule(topology="dc", required="rack")})
    assert could_ever_fit(sketch.state, demand) is not None
    topologies = (Topology(name="dc", levels=("rack",)),)
    fold(sketch.state, facts.PolicyApplied(policy=DEFAULT_POLICY.model_copy(update={"topologies": topologies})))
    assert could_ever_fit(sketch.state, demand) is None


# --- the queue


def test_jobs_whose_classes_change_places_under_a_new_policy_change_places_in_the_queue(sketch: Sketch) -> None:
    jobs = [sketch.job(name, priority=value) for name, value in (("first", 75), ("second", 50), ("third", 50))]
    jobs[0].class_name = "interactive"
    values = {"interactive": 40}
    classes = tuple(
        entry.model_copy(update={"value": values.get(entry.name, entry.value)}) for entry in DEFAULT_POLICY.priority_classes
    )
    fold(sketch.state, facts.PolicyApplied(policy=DEFAULT_POLICY.model_copy(update={"priority_classes": classes})))
    assert [(name, sketch.state.jobs[name].priority) for name in sketch.state.queue] == [
        ("second", 50),
        ("third", 50),
        ("first", 40),
    ]


@pytest.mark.parametrize("queued", [(), ("earlier",), ("later",), ("earlier", "later")])
def test_a_job_that_is_not_queued_cannot_leave_the_queue(sketch: Sketch, queued: tuple[str, ...]) -> None:
    jobs = {name: sketch.job(name, priority=priority) for name, priority in (("earlier", 60), ("job", 50), ("later", 40))}
    for name in jobs.keys() - set(queued):
        dequeue(sketch.state, jobs[name])
    with pytest.raises(ValueError, match="job job does not wait in the queue"):
        dequeue(sketch.state, jobs["job"])
    assert sketch.state.queue == list(queued)


# --- what is kept only so long


@pytest.mark.parametrize(
    ("changed", "blocked", "rebuilt"),
    [(STALE_KEPT, False, False), (STALE_KEPT + 1, False, True), (STALE_KEPT + 1, True, False), (0, False, False)],
)
def test_a_snapshot_that_is_far_behind_is_made_anew_unless_jobs_wait_for_its_positions(
    sketch: Sketch, changed: int, blocked: bool, rebuilt: bool
) -> None:
    indices = sketch.state.indices
    indices.snapshot = "made before"
    indices.changed_jobs = {str(number): None for number in range(changed)}
    indices.changed_nodes = {0: None}
    indices.backfill_blocked = {"job": None} if blocked else {}
    close_cycle(sketch.state)
    assert (indices.snapshot, len(indices.changed_jobs), len(indices.changed_nodes)) == (
        (None, 0, 0) if rebuilt else ("made before", changed, 1)
    )


@pytest.mark.parametrize(
    ("changed", "index"), [("changed_times", "timers"), ("changed_ends", "completion_order")], ids=["timers", "ends"]
)
@pytest.mark.parametrize(("behind", "rebuilt"), [(STALE_KEPT, False), (STALE_KEPT + 1, True)], ids=["near", "far"])
def test_an_order_that_is_far_behind_is_made_anew(sketch: Sketch, changed: str, index: str, behind: int, rebuilt: bool) -> None:
    indices = sketch.state.indices
    setattr(indices, index, "made before")
    setattr(indices, changed, {str(number): None for number in range(behind)})
    close_cycle(sketch.state)
    assert (getattr(indices, index), len(getattr(indices, changed))) == ((None, 0) if rebuilt else ("made before", behind))


@pytest.mark.parametrize(("forgotten", "left"), [(FORGOTTEN_KEPT, FORGOTTEN_KEPT), (FORGOTTEN_KEPT + 1, 0)])
def test_the_gaps_of_forgotten_entries_are_closed_once_there_are_many(sketch: Sketch, forgotten: int, left: int) -> None:
    state = sketch.state
    sketch.job("done")
    state.ended = {"done": state.now}
    state.indices.forgotten = forgotten
    forget(state)
    assert state.indices.forgotten == left
    assert state.ended == {"done": state.now}


def test_forgotten_entries_are_counted(sketch: Sketch) -> None:
    state = sketch.state
    sketch.job("done")
    state.ended, state.requests = {"done": 0}, {name: SeenRequest("digest", 0, 1) for name in ("first", "second")}
    state.now = 10**18
    forget(state)
    assert (state.ended, state.requests, state.indices.forgotten) == ({}, {}, 3)


# --- what follows from the start, end or pause of a job or task, and from a request that is closed, as the fold keeps it


def test_a_job_that_is_paused_is_not_idle_from_then_on(sketch: Sketch) -> None:
    state, job = sketch.state, sketch.running("job", "a", [0])
    state.policy = rules(idle={"after": "1m"})
    job.tasks[0].idle_since = state.now - MINUTE
    state.indices.changed_times["job"] = None
    assert timers_of(state).due(state, idle_since.NAME) == [job]
    fold(state, facts.JobPaused(request=facts.RequestId(source="laptop", id="r", digest="0" * 64), job="job"))
    assert timers_of(state).due(state, idle_since.NAME) == []


def test_the_proposal_of_a_request_that_is_closed_is_dropped(sketch: Sketch) -> None:
    state = sketch.state
    state.selection = Selection(1, 1, None, [OpenRequest(1, "first"), OpenRequest(2, "second")])
    state.proposals = {number: Proposal(request=number, job="job", action="preempt") for number in (1, 2)}
    close_request(state, 1)
    assert (list(state.proposals or ()), [request.seq for request in state.selection.requests]) == ([2], [2])
    close_request(state, 2)
    assert (state.proposals, state.selection) == (None, None)


def test_attachments_to_a_job_are_those_that_may_go_on(sketch: Sketch) -> None:
    for name, number in (("job", 0), ("other", 1)):
        sketch.running(name, "a", [number])
    attached = {
        seq: Attachment(name, attempt, 0, "a", "i-a", "u", sketch.state.now)
        for seq, (name, attempt) in enumerate((("job", 1), ("job", 2), ("other", 1)), 1)
    }
    sketch.state.attachments = attached
    assert live_attachments(sketch.state, "job") == [attached[1]]


# --- facts that are rare: about a task or a job that the state does not have, and a grant that nobody uses any more


@pytest.mark.parametrize(("kind", "about"), [(facts.TaskStarted, {}), (facts.TaskProgressed, {"step": 1})])
def test_a_report_about_a_task_that_the_job_does_not_have_is_an_error_of_the_log(kind: Any, about: dict[str, Any]) -> None:
    sketch = Sketch()
    sketch.node("a")
    sketch.running("job", "a", [0])
    report = kind(job="job", attempt=1, task=1, node="a", **about)
    with pytest.raises(ValueError, match="job job has no task 1 in its attempt 1"):
        FOLDS[kind](sketch.state, report)


@pytest.mark.parametrize("until", ["succeeded", "ended"])
def test_a_job_waits_for_what_is_there_not_for_what_was_forgotten_nor_for_itself(until: Any) -> None:
    sketch = Sketch()
    other, job = sketch.job("other"), sketch.job("job")
    after = [Dependency(job=name, until=until) for name in ("forgotten", "job", "other")]
    job.demand = job.demand.model_copy(update={"after": tuple(after)})
    note_dependencies(sketch.state, job)
    assert job.waits_for == {"other": until}
    assert sketch.state.dependents == {other.id: {"job": None}}
    assert not job.failed_dependency


def test_an_answer_to_a_grant_that_is_forgotten_changes_nothing() -> None:
    story = play("node a; runs job: 1 gpu")
    story.cycle(facts.AttachReady(**story.at("job", 0), grant=9, address="10.0.0.1:4000", fingerprint="0" * 64))
    assert story.state.attachments == {}


def test_an_unanswered_grant_is_forgotten_at_the_next_one_and_an_answered_one_stays() -> None:
    story = play("node a; runs job: 1 gpu")
    grants = []
    for answered in (False, True, False):
        at = story.at("job", 0)
        story.cycle(facts.AttachGranted(**at, request=story.request(), client_certificate="A" * 100), after=MINUTE)
        grants.append(max(story.state.attachments))
        if answered:
            story.cycle(facts.AttachReady(**at, grant=grants[-1], address="10.0.0.1:4000", fingerprint="0" * 64))
    assert list(story.state.attachments) == grants[1:]
    assert live_attachments(story.state, "job") == list(story.state.attachments.values())
    assert live_attachments(story.state, "another") == []


# --- every request that changes the pool is remembered, so that its repeat has no effect


KEY = "1" * 42 + "A"
JOB, NODE = {"job": "job"}, {"node": "a"}
REQUESTS: dict[type[facts.Fact], dict[str, Any]] = {
    facts.PolicyApplied: {"policy": DEFAULT_POLICY},
    facts.GpusReserved: {"reservation": "r", "project": "p", "gpus": 1, "begin": 1, "duration": 60 * MINUTE},
    facts.ReservationCancelled: {"reservation": "r"},
    facts.BudgetToppedUp: {"budget": "b", "gpu_hours": 1, "reason": "x"},
    facts.BudgetTransferred: {"budget": "b", "to": "c", "gpu_hours": 1, "reason": "x"},
    facts.LogTruncated: {"epoch": 1, "seq": 1},
    facts.AttachGranted: {**JOB, **NODE, "attempt": 1, "task": 0, "client_certificate": ""},
    facts.DeviceClearRequested: {**NODE, "device": "a-0", "reason": "repaired"},
    facts.JobScaled: {**JOB, "tasks": 2},
    facts.JobSpecGranted: {**JOB, "encryption_key": KEY},
    facts.JobSubmitted: {"demand": JobDemand(job="new", tasks=(group(),)), "spec_digest": digest("new")},
    facts.JobPriorityClassChanged: {**JOB, "priority_class": "train"},
    facts.JobCancelled: JOB,
    facts.KeyRevoked: {"key": KEY},
    facts.RootKeyChanged: {"change": RootKeyChange(identity="0" * 64, key=KEY, signature="5" * 85 + "A")},
    facts.EnrolmentPermitted: {**NODE, "expires": 1},
    facts.NodeReplaced: {**NODE, "machine_id": "m-2"},
    facts.NodeReturned: {},
    facts.JobEvictionRequested: JOB,
    facts.JobMigrationRequested: JOB,
    facts.JobPaused: JOB,
    facts.JobCheckpointRequested: JOB,
    facts.JobResumed: JOB,
    facts.NodeDrained: NODE,
    facts.NodeUndrained: NODE,
}


def test_the_table_has_every_request() -> None:
    asked = [kind for kind in FOLDS if issubclass(kind, facts.Fact) and "request" in kind.model_fields]
    assert {kind.__name__ for kind in asked} == {kind.__name__ for kind in REQUESTS}


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_a_request_is_remembered(kind: type[facts.Fact]) -> None:
    sketch = Sketch()
    sketch.node("a")
    sketch.job("job")
    state = sketch.state
    state.seq, state.budgets = 7, {name: BudgetUse(0, 0) for name in "bc"}
    FOLDS[kind](state, kind.model_construct(request=REQUEST, **REQUESTS[kind]))
    (seen,) = state.requests.items()
    assert (seen[0], seen[1].digest, seen[1].seen_at, seen[1].seq) == (request_key("laptop", "r-1"), REQUEST.digest, state.now, 7)
