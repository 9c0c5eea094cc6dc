"""Rules of the lifecycle one at a time: ends of attempts, outcomes, evictions that end, operator requests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.kits.builders import Sketch, group
from tests.kits.log_builder import SECOND
from tests.kits.log_builder import policy as rules

from bailiff_core.actions.migrate import drain_migrations, migrations, moves_off_drained_nodes
from bailiff_core.fold.outcome import EXIT_0_AFTER_NOTICE, attempt_outcome, rule_of
from bailiff_core.fold.registry import FOLDS
from bailiff_core.lifecycle.coordinated_checkpoint import common_step
from bailiff_core.lifecycle.dependencies import dependencies
from bailiff_core.lifecycle.devices import device_evictions
from bailiff_core.lifecycle.evictions import cancelled_evictions_of_preemptions, stuck_at, stuck_evictions
from bailiff_core.lifecycle.operator_actions import drain_grace, drains, paused_jobs, requested_evictions
from bailiff_core.lifecycle.termination import broken_attempts, cancelled_jobs, finished_attempts, scaled_down, shrunk_gangs
from bailiff_core.model.evictions import ActiveEviction
from bailiff_core.model.state import Drain, Eviction, Job, OperatorRequest, PoolState, Preemption, Task
from bailiff_core.records import facts
from bailiff_core.records.decisions import MigrationDecided
from bailiff_core.records.payload import Decision

# --- what an attempt ends with, and which ended tasks a gang continues without: one rule of termination at a time


DRAINED = Eviction(1, "drain", 5)


def gang(*tasks: dict[str, Any], minimum: int = 1, **about: Any) -> tuple[Sketch, Job]:
    """A running job with tasks of one GPU each, about which these fields say what is not usual."""
    sketch = Sketch(a=8)
    job = sketch.at(sketch.job("job", group(len(tasks), gpus=1)), *(("a", [number]) for number in range(len(tasks))))
    job.demand = job.demand.model_copy(update={"min_tasks": minimum, **about.pop("demand", {})})
    for task, fields in zip(job.tasks, tasks, strict=True):
        for name, value in fields.items():
            setattr(task, name, value)
    for name, value in about.items():
        setattr(job, name, value)
    sketch.state.indices.touched["job"] = None
    return sketch, job


def left(state: str = "released", **about: Any) -> dict[str, Any]:
    """A task that was evicted singly, with TERM and exit code 143."""
    return {"state": state, "eviction": DRAINED, "noticed": True, "term_sent": True, "exit_code": 143, **about}


LOST = {"state": "released", "exit_code": None}


@pytest.mark.parametrize(
    ("tasks", "removed"),
    [
        (({}, left()), [("1", "preempted-unclean", "drain")]),
        (({}, left("exited")), []),  # its resources are not free yet
        (({}, left(exit_code=None)), [("1", "preempted-unclean", "drain")]),  # once, as an eviction
        (({}, LOST), [("1", "lost", "exit")]),
        (({}, LOST, left()), [("2", "preempted-unclean", "drain"), ("1", "lost", "exit")]),
        ((left(), left()), []),  # none is left: the attempt is over
        (({}, left(exit_code=1, noticed=False, term_sent=False)), []),  # it failed by itself
    ],
)
def test_a_gang_goes_on_without_tasks_that_are_gone(tasks: tuple[dict[str, Any], ...], removed: Any) -> None:
    sketch, _ = gang(*tasks)
    found = [(each.tasks, each.outcome, each.cause) for each in shrunk_gangs(sketch.state)]  # type: ignore[attr-defined]
    assert found == removed


@pytest.mark.parametrize(("last", "removed"), [({}, [("0", "lost")]), ({"state": "released", "exit_code": 0}, [])])
def test_a_lost_task_is_replaced_only_while_another_runs(last: dict[str, Any], removed: Any) -> None:
    """Below its minimum it may run for ever."""
    sketch, _ = gang(LOST, last, minimum=2, demand={"stale_grace": "never"})
    assert [(each.tasks, each.outcome) for each in shrunk_gangs(sketch.state)] == removed  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("tasks", "about", "reason"),
    [
        (({}, left()), {}, None),
        (({}, LOST), {}, None),
        (({}, LOST), {"minimum": 2}, "task 1 ended, so the gang is stopped"),
        (({}, {"state": "released", "exit_code": 1}), {}, "task 1 ended, so the gang is stopped"),
        (({}, {"state": "released", "exit_code": 0}), {}, None),
        (({}, left(exit_code=1, noticed=False, term_sent=False)), {}, "task 1 ended, so the gang is stopped"),
        (({}, {}), {"cancelled": True}, "cancellation requested"),
    ],
)
def test_which_ended_task_stops_its_gang(tasks: tuple[dict[str, Any], ...], about: dict[str, Any], reason: str | None) -> None:
    sketch, _ = gang(*tasks, **about)
    assert [each.reason for each in broken_attempts(sketch.state)] == ([reason] if reason else [])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("tasks", "phase", "decided"),
    [
        (({}, {}), "running", [("EvictionDecided", "1")]),
        (({}, {}), "evicting", []),
        (({}, left("running")), "running", []),
        (({}, {"state": "exited"}), "running", []),
        (({}, {"state": "released"}), "running", []),
        (({}, {"state": "reserved"}), "running", [("ReservationDropped", "1")]),
        (({"state": "reserved"}, {"state": "reserved"}), "reserved", [("ReservationDropped", "")]),
    ],
)
def test_of_a_job_that_was_scaled_down_tasks_that_have_not_ended_go(tasks: Any, phase: Any, decided: Any) -> None:
    sketch, job = gang(*tasks, phase=phase)
    job.demand = job.demand.model_copy(update={"tasks": (group(1, gpus=1),)})
    assert [(type(each).__name__, each.tasks) for each in scaled_down(sketch.state)] == decided  # type: ignore[attr-defined]


YIELDED = {"state": "released", "exit_code": 85}
PREEMPTED = {"state": "released", "exit_code": 143, "noticed": True, "term_sent": True}
ZERO = {"state": "released", "exit_code": 0, "noticed": True, "term_sent": True}
ENDS = {"demand": {"on_eviction": "end"}}


@pytest.mark.parametrize(
    ("task", "about", "ended"),
    [
        (YIELDED, {"yields": 9}, ("JobRequeued", "yielded", "")),
        (
            YIELDED,
            {"yields": 10},
            ("JobEnded", "failed", "it exited with 85 without an eviction notice, 11 times (rule exit-85-without-notice)"),
        ),
        (LOST, {"yields": 10}, ("JobRequeued", "lost", "")),
        (YIELDED, ENDS, ("JobRequeued", "yielded", "")),  # nobody evicted it
        (LOST, ENDS, ("JobRequeued", "lost", "")),
        (PREEMPTED, {"eviction": DRAINED}, ("JobRequeued", "preempted-unclean", "")),
        (PREEMPTED, {"eviction": DRAINED, **ENDS}, ("JobEnded", "evicted", "")),
        (PREEMPTED, {"eviction": Eviction(1, "paused", 5), **ENDS}, ("JobRequeued", "preempted-unclean", "")),
        (
            ZERO,
            {"eviction": DRAINED, **ENDS},
            ("JobEnded", "evicted", "it exited with 0 after its eviction notice (rule exit-0-after-notice)"),
        ),
    ],
)
def test_how_a_job_goes_on_after_an_attempt(task: dict[str, Any], about: dict[str, Any], ended: Any) -> None:
    sketch, _ = gang(task, **about)
    assert sketch.state.rules.restarts.max_yields == 10
    (found,) = finished_attempts(sketch.state)
    assert (type(found).__name__, found.outcome, getattr(found, "reason", "")) == ended  # type: ignore[attr-defined]


# --- what the exits of tasks mean for their job, as tables: which rule applies, whose exit counts, when a gang saves together


EVICTION = Eviction(1, "preemption", 30_000_000)


def task(index: int = 0, state: Any = "exited", **about: Any) -> Task:
    return Task(index, 0, 0, state, **about)


def gang_of_outcomes_of_tasks(*tasks: Task, evicted: bool = False) -> Job:
    job = Sketch().job("job", group(max(2, len(tasks)), gpus=1))
    job.tasks, job.phase, job.eviction = list(tasks), "running", EVICTION if evicted else None
    return job


@pytest.mark.parametrize(
    ("about", "applies"),
    [
        ({"exit_code": 0, "noticed": True}, True),
        ({"exit_code": 0, "term_sent": True}, True),
        ({"exit_code": 0}, False),
        ({"exit_code": 0, "noticed": True, "reported_done": True}, False),
        ({"exit_code": 0, "noticed": True, "acknowledged": True}, False),
        ({"exit_code": 85, "noticed": True}, False),
    ],
)
def test_exit_0_after_a_notice_is_a_rule_of_its_own_for_one_task_of_the_gang(about: dict[str, Any], applies: bool) -> None:
    job = gang_of_outcomes_of_tasks(task(**about), task(1, exit_code=85, noticed=True))
    assert rule_of(job, "preempted") == (EXIT_0_AFTER_NOTICE if applies else "")


@pytest.mark.parametrize(
    ("tasks", "evicted", "found"),
    [
        ((task(exit_code=0), task(1, exit_code=1, eviction=EVICTION)), False, "finished"),
        ((task(exit_code=1, eviction=EVICTION), task(1, "running")), False, "failed"),
        ((task(exit_code=0, eviction=EVICTION), task(1, exit_code=1, eviction=EVICTION)), False, "failed"),
        ((task(exit_code=0, acknowledged=True), task(1, exit_code=1, noticed=True)), True, "preempted-unclean"),
        ((task(exit_code=0, acknowledged=True), task(1, exit_code=1)), True, "failed"),
        ((task(exit_code=0, noticed=True), task(1, exit_code=1, noticed=True)), True, "preempted-unclean"),
    ],
)
def test_the_outcome_of_a_gang_is_the_worst_of_those_that_count(tasks: tuple[Task, ...], evicted: bool, found: str) -> None:
    assert attempt_outcome(gang_of_outcomes_of_tasks(*tasks, evicted=evicted)) == found


def rank(index: int, **about: Any) -> Task:
    return task(index, **{"state": "running", "attached": True, "noticed": True, "notice_step": 10, **about})


@pytest.mark.parametrize(
    ("ranks", "found"),
    [
        ((rank(0), rank(1, notice_step=13)), (15, False)),
        ((rank(0, notice_step=None), rank(1, notice_step=None)), (2, False)),
        # 100 steps per second for two round trips of 0.1 s are 20 steps, of the fastest rank
        ((rank(0, notice_step_rate_milli=100_000), rank(1, notice_step_rate_milli=1_000)), (30, False)),
        # a step more than two, however little of it: 1.001 steps per second for twice 0.999001 s are 2.000000002 steps
        ((rank(0, notice_step_rate_milli=1_001, stage_times={"noticed": 999_001}), rank(1)), (13, False)),
        ((rank(0, notice_step_rate_milli=1_500, stage_times={"noticed": 1_000_000}), rank(1)), (13, False)),
        ((rank(0, attached=False, notice_step_rate_milli=100_000), rank(1)), (12, False)),
        ((rank(0, confirmed_step=12), rank(1, confirmed_step=12)), (12, True)),
        ((rank(0, confirmed_step=12), rank(1, confirmed_step=14)), (14, False)),
        ((rank(0, noticed=False), rank(1)), None),
        ((rank(0, state="exited"), rank(1)), None),
        ((rank(0, attached=False), rank(1, attached=False)), None),
        ((rank(0),), None),
    ],
)
def test_the_step_at_which_a_gang_saves_together(ranks: tuple[Task, ...], found: Any) -> None:
    started = Eviction(1, "preemption", 30_000_000, started_at=0)
    assert common_step(ActiveEviction(gang_of_outcomes_of_tasks(*ranks), started, list(ranks), "")) == found
    assert common_step(ActiveEviction(gang_of_outcomes_of_tasks(*ranks), started, list(ranks), "0-1")) is None, (
        "a part does not save together"
    )
    assert common_step(ActiveEviction(gang_of_outcomes_of_tasks(*ranks), EVICTION, list(ranks), "")) is None, "it has not begun"


@pytest.mark.parametrize(
    ("about", "decided"),
    [
        ({"device_failed": True}, ("device", "a device of a failed and recovered")),
        ({"over_share": True}, ("over-share", "task 0 uses more of its GPU than its share")),
        ({"device_failed": True, "over_share": True}, ("device", "a device of a failed and recovered")),
        ({}, None),
    ],
)
@pytest.mark.parametrize("evicting", [False, True])
def test_a_job_with_a_broken_device_is_evicted_once(about: dict[str, Any], decided: Any, evicting: bool) -> None:
    sketch = Sketch(a=2)
    job = sketch.running("job", "a", [0])
    for name, value in about.items():
        setattr(job.tasks[0], name, value)
    job.eviction = EVICTION if evicting else None
    sketch.state.indices.touched["job"] = None
    found = [(each.cause, each.reason) for each in device_evictions(sketch.state)]  # type: ignore[attr-defined]
    assert found == ([decided] if decided and not evicting else [])


def test_the_fault_of_a_device_that_is_still_broken_is_the_reason() -> None:
    sketch = Sketch()
    node = sketch.node("a", gpus=2)
    job = sketch.running("job", "a", range(2))
    job.tasks[0].device_failed = True
    node.devices[1].healthy, node.devices[1].fault = False, "xid 79"
    sketch.state.indices.touched["job"] = None
    (found,) = device_evictions(sketch.state)
    assert found.reason == "a-1 of a: xid 79"  # type: ignore[attr-defined]
    node.devices[1].fault = "x" * 2000
    (found,) = device_evictions(sketch.state)
    assert found.reason == f"a-1 of a: {'x' * 1000}"[:1000]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("others", "tasks"), [(("running", "running"), "0"), (("exited", "running"), "0"), (("exited", "exited"), "")]
)
def test_a_job_whose_last_task_is_on_a_broken_device_is_evicted_whole_although_others_have_succeeded(
    others: tuple[Any, ...], tasks: str
) -> None:
    sketch = Sketch(a=3)
    job = sketch.at(sketch.job("job", group(3, gpus=1)), ("a", [0]), ("a", [1]), ("a", [2]))
    job.demand = job.demand.model_copy(update={"min_tasks": 2})
    job.tasks[0].device_failed = True
    for member, state in zip(job.tasks[1:], others, strict=True):
        member.state, member.exit_code = state, 0 if state == "exited" else None
    sketch.state.indices.touched["job"] = None
    (found,) = device_evictions(sketch.state)
    assert found.tasks == tasks  # type: ignore[attr-defined]


# --- which evictions are cancelled, since nothing needs them any more, and which count as stuck: one rule at a time


def evicting(cause: Any, *, drains: Any = (), started: int | None = None, tasks: str = "", **about: Any) -> tuple[Sketch, Job]:
    """A gang of two, on nodes a and b, is being evicted, or these tasks of it. drains: of node a, and of node b, whether due."""
    sketch = Sketch(a=8, b=8)
    for node, due in zip(sketch.state.nodes.values(), drains, strict=False):
        node.drain = None if due is None else Drain(1, "graceful", due=due)
    job = sketch.at(sketch.job("job", group(2, gpus=1)), ("a", [0]), ("b", [0]))
    preemption = 7 if cause == "preemption" else None
    eviction = Eviction(3, cause, 5, preemption=preemption, for_job="gone" if preemption else "", started_seq=started)
    if tasks:
        job.tasks[1].eviction = eviction
    else:
        job.phase, job.eviction = "evicting", eviction
    for name, value in about.items():
        setattr(job, name, value)
    sketch.state.evicting["job"] = None
    return sketch, job


def cancelled(sketch: Sketch) -> list[tuple[str, bool, str, int | None]]:
    found: list[Any] = list(cancelled_evictions_of_preemptions(sketch.state))
    return [(each.reason, each.notified, each.tasks, each.preemption) for each in found]


MOVES, DRAINS, NEEDS = "its reservation was dropped", "its node is no longer drained", "gone no longer needs the resources"
PLACE = [Task(0, 1, 0b10, "reserved"), Task(1, 0, 0b10, "reserved")]


@pytest.mark.parametrize("cause", ["migration", "resize"])
@pytest.mark.parametrize(
    ("about", "ends"),
    [({}, True), ({"reservation": PLACE}, False), ({"started": 4}, False), ({"restart_cause": "preemption"}, False)],
    ids=("no place any more", "has a place", "notified", "has to restart"),
)
def test_a_job_that_was_to_move_stays_if_it_has_no_place_and_nobody_was_notified(cause: str, about: Any, ends: bool) -> None:
    sketch, _ = evicting(cause, **about)
    assert cancelled(sketch) == ([(MOVES, False, "", None)] if ends else [])


@pytest.mark.parametrize("tasks", ["", "1"])
@pytest.mark.parametrize(
    ("drains", "started", "ends"),
    [
        ((None, None), None, True),
        ((False, False), None, True),  # they may run to their end
        ((None, True), None, False),
        ((True, True), None, False),
        ((None, None), 4, False),
    ],
)
def test_a_job_stays_on_a_node_that_is_drained_no_more(tasks: str, drains: Any, started: Any, ends: bool) -> None:
    sketch, _ = evicting("drain", drains=drains, started=started, tasks=tasks)
    assert cancelled(sketch) == ([(DRAINS, False, tasks, None)] if ends else [])


@pytest.mark.parametrize(
    ("tasks", "started", "exited", "ended"),
    [
        ("", None, 0, (NEEDS, False, "", 7)),
        ("", 4, 0, (NEEDS, True, "", 7)),
        ("", 4, 1, None),  # a gang of which one has exited cannot go on
        ("1", None, 0, (NEEDS, False, "1", 7)),
        ("1", 4, 0, (NEEDS, True, "1", 7)),
        ("1", 4, 1, None),
    ],
)
def test_an_eviction_ends_with_the_preemption_that_needed_it(tasks: str, started: Any, exited: int, ended: Any) -> None:
    sketch, job = evicting("preemption", started=started, tasks=tasks)
    if exited:
        job.tasks[1].state = "exited"
    assert cancelled(sketch) == ([ended] if ended else [])
    sketch.state.preemptions[7] = Preemption(7, "gone", ["job"])
    assert cancelled(sketch) == []


def test_of_several_tasks_those_that_have_not_exited_stay() -> None:
    sketch, job = evicting("preemption", started=4, tasks="1")
    job.tasks[0].eviction, job.tasks[0].state = job.tasks[1].eviction, "exited"
    assert cancelled(sketch) == [(NEEDS, True, "1", 7)]


@pytest.mark.parametrize("tasks", ["", "1"])
@pytest.mark.parametrize(("late", "stuck"), [(-1, False), (0, True), (1, True)])
def test_an_eviction_is_stuck_from_that_moment(tasks: str, late: int, stuck: bool) -> None:
    sketch, job = evicting("drain", started=4, tasks=tasks)
    eviction = job.tasks[1].eviction if tasks else job.eviction
    assert eviction is not None
    eviction.started_at = sketch.state.now
    due = stuck_at(sketch.state, eviction)
    assert due is not None
    sketch.state.now = due + late
    found: list[Any] = list(stuck_evictions(sketch.state))
    assert [(each.job, each.tasks) for each in found] == ([("job", tasks)] if stuck else [])


# --- what becomes of jobs that were paused, evicted by request, or lie on a drained node: one rule of the lifecycle at a time


EVICTION_REQUESTS_OF_OPERATORS = Eviction(1, "preemption", 5)


@pytest.fixture
def sketch() -> Sketch:
    return Sketch(a=2, b=2, c=2)


def placed(sketch: Sketch, phase: Any = "running", **about: Any) -> Job:
    """One task on node a."""
    job = sketch.running("job", "a", [0])
    job.phase = phase
    for name, value in about.items():
        setattr(job, name, value)
    sketch.state.indices.touched["job"] = None
    return job


def reasons(decisions: Any) -> list[tuple[str, str]]:
    """Kind and reason of each decision."""
    return [(type(each).__name__, each.reason) for each in decisions]


IDLE = "its GPUs were idle for 60 s"


@pytest.mark.parametrize(
    ("about", "decided"),
    [
        ({}, [("EvictionDecided", "pause requested")]),
        ({"phase": "starting"}, [("EvictionDecided", "pause requested")]),
        ({"pause_reason": "upgrade"}, [("EvictionDecided", "pause requested: upgrade")]),
        ({"pause_reason": IDLE, "idle_recorded": True}, [("EvictionDecided", IDLE)]),  # by the idle rule
        ({"idle_recorded": True}, [("EvictionDecided", "pause requested")]),  # an operator read the warning
        ({"phase": "reserved"}, [("ReservationDropped", "paused")]),
        ({"phase": "evicting"}, []),
        ({"phase": "pending"}, []),
        ({"cancelled": True}, []),  # it ends
        ({"paused_seq": None}, []),
    ],
)
def test_a_paused_job_gives_up_what_it_has(sketch: Sketch, about: dict[str, Any], decided: Any) -> None:
    placed(sketch, **{"paused_seq": 3, **about})
    assert reasons(paused_jobs(sketch.state)) == decided


@pytest.mark.parametrize(
    ("phase", "kind", "decided"),
    [
        ("running", "evict", [("EvictionDecided", "eviction requested: upgrade")]),
        ("starting", "evict", [("EvictionDecided", "eviction requested: upgrade")]),
        ("reserved", "evict", [("ReservationDropped", "requested")]),
        ("evicting", "evict", []),
        ("pending", "evict", []),
        ("running", "migrate", []),
    ],
)
def test_a_requested_eviction_takes_what_the_job_has(sketch: Sketch, phase: Any, kind: Any, decided: Any) -> None:
    placed(sketch, phase, operator_request=OperatorRequest(3, kind, "upgrade"))
    assert reasons(requested_evictions(sketch.state)) == decided


# --- drained nodes


def drain(sketch: Sketch, *names: str, **about: Any) -> None:
    for name in names:
        number = sketch.state.node_numbers[name]
        sketch.state.nodes[number].drain = Drain(1, **{"mode": "graceful", "reason": name, **about})
        sketch.state.draining[number] = None


def gang_of_requests_of_operators(sketch: Sketch, *nodes: str, minimum: int | None = None) -> Job:
    """One task on each of these nodes, each of which listens for notices."""
    job = sketch.at(sketch.job("gang", group(len(nodes), gpus=1)), *((node, [0]) for node in nodes))
    job.demand = job.demand.model_copy(update={"min_tasks": minimum})
    for task in job.tasks:
        task.attached = True
    sketch.state.indices.touched["gang"] = None
    return job


@pytest.mark.parametrize(
    ("deadline", "due", "decided"),
    [
        (0, False, ["DrainDeadlineReached"]),
        (1, False, []),
        (-1, False, ["DrainDeadlineReached"]),
        (-1, True, []),
        (None, False, []),
    ],
)
def test_the_deadline_of_a_drain_is_recorded_once(sketch: Sketch, deadline: int | None, due: bool, decided: list[str]) -> None:
    drain(sketch, "a", deadline=None if deadline is None else sketch.state.now + deadline, due=due)
    assert [type(each).__name__ for each in drains(sketch.state)] == decided


@pytest.mark.parametrize(
    ("job", "task", "moves"),
    [
        ({}, {}, True),
        ({"phase": "starting"}, {}, True),
        ({"phase": "evicting"}, {}, False),
        ({"suspended_reason": "gave up"}, {}, False),
        ({}, {"state": "starting"}, False),
        ({}, {"state": "exited"}, False),
        ({}, {"attached": False}, False),
        ({}, {"eviction": EVICTION_REQUESTS_OF_OPERATORS}, False),
    ],
)
def test_a_job_moves_off_a_drained_node_if_all_of_it_runs_and_listens(
    sketch: Sketch, job: dict[str, Any], task: dict[str, Any], moves: bool
) -> None:
    drain(sketch, "a")
    found = gang_of_requests_of_operators(sketch, "b", "a")
    for name, value in job.items():
        setattr(found, name, value)
    for name, value in task.items():
        setattr(found.tasks[1], name, value)
    assert moves_off_drained_nodes(sketch.state, found) is moves


@pytest.mark.parametrize(
    ("nodes", "modes", "minimum", "moves"),
    [
        (("b", "a"), {"a": "graceful"}, None, True),
        (("a", "b"), {"a": "quick", "b": "graceful"}, None, True),
        (("a", "b"), {"a": "quick"}, None, False),
        (("c",), {"a": "graceful"}, None, False),
        (("a", "b"), {"a": "graceful"}, 1, False),  # it can do without its task there
        (("a", "b"), {"a": "graceful"}, 2, True),
    ],
)
def test_for_which_drains_a_job_moves(
    sketch: Sketch, nodes: tuple[str, ...], modes: dict[str, Any], minimum: int | None, moves: bool
) -> None:
    for name, mode in modes.items():
        drain(sketch, name, mode=mode)
    assert moves_off_drained_nodes(sketch.state, gang_of_requests_of_operators(sketch, *nodes, minimum=minimum)) is moves


def test_the_reason_of_a_migration_is_the_drained_node_on_which_a_task_runs(sketch: Sketch) -> None:
    sketch.node("d", gpus=2)
    drain(sketch, "b")
    gang_of_requests_of_operators(sketch, "a", "b")
    assert reasons(drain_migrations(sketch.state)) == [("MigrationDecided", "b is drained (graceful): b")]


@pytest.mark.parametrize("fast", ["a", "b"])
def test_a_migration_keeps_to_the_drain_that_leaves_the_least_grace(sketch: Sketch, fast: str) -> None:
    sketch.node("d", gpus=2)
    drain(sketch, "ab".replace(fast, ""))
    drain(sketch, fast, mode="fast")
    gang_of_requests_of_operators(sketch, "a", "b")
    (decision,) = drain_migrations(sketch.state)
    assert isinstance(decision, MigrationDecided)
    assert (decision.grace, decision.reason) == (sketch.state.rules.eviction.short_grace, f"{fast} is drained (fast): {fast}")


def test_a_job_that_may_run_to_its_end_keeps_no_other_on_a_drained_node(sketch: Sketch) -> None:
    drain(sketch, "a")
    placed(sketch)  # it does not listen for notices
    gang_of_requests_of_operators(sketch, "a")
    assert [(type(each).__name__, each.job) for each in drain_migrations(sketch.state)] == [("MigrationDecided", "gang")]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("mode", "left", "grace"),
    [
        *(("quick", None, 30), ("quick", 40, 30), ("quick", 7, 7), ("quick", 0, 0), ("quick", -1, 0), ("fast", None, 5)),
        *(("fast", 7, 5), ("fast", 3, 3), ("graceful", 7, 30)),
    ],
)
def test_the_grace_of_a_job_ends_with_the_deadline_of_the_drain(sketch: Sketch, mode: Any, left: int | None, grace: int) -> None:
    job = placed(sketch)
    job.demand = job.demand.model_copy(update={"grace": 30 * SECOND})
    deadline = None if left is None else sketch.state.now + left * SECOND
    sketch.state.policy = rules(eviction={"short_grace": "5s"})
    assert drain_grace(sketch.state, job, Drain(1, mode, deadline=deadline)) == grace * SECOND


def test_a_drain_concerns_the_jobs_that_have_or_get_something_on_the_node(sketch: Sketch) -> None:
    sketch.running("there", "a", [0])
    sketch.running("comes", "b", [0]).reservation = [Task(0, 0, 0b10, "reserved")]
    sketch.running("elsewhere", "b", [1])
    request = facts.RequestId(source="laptop", id="r", digest="0" * 64)
    FOLDS[facts.NodeDrained](sketch.state, facts.NodeDrained(request=request, node="a", mode="quick"))
    assert list(sketch.state.indices.touched) == ["there", "comes"]


def test_a_migration_that_is_refused_keeps_no_other_job_where_it_is(sketch: Sketch) -> None:
    for name, number, node in (("first", 0, "nowhere"), ("second", 1, "b")):
        sketch.running(name, "a", [number]).operator_request = OperatorRequest(1, "migrate", node=node)
        sketch.state.indices.touched[name] = None
    found = [(type(each).__name__, each.job) for each in migrations(sketch.state)]  # type: ignore[attr-defined]
    assert found == [("MigrationRefused", "first"), ("MigrationDecided", "second")]


# --- decisions job by job: a job that a rule does not concern keeps none behind it from being decided about


def place(sketch: Sketch, *names: str, tasks: int = 1) -> list[Job]:
    """Running jobs on node a, whose tasks have one GPU each."""
    jobs = []
    for name in names:
        used = sum(len(job.tasks) for job in sketch.state.jobs.values())
        job = sketch.job(name, group(tasks, gpus=1))
        jobs.append(sketch.at(job, *(("a", [used + number]) for number in range(tasks))))
        sketch.state.indices.touched[name] = None
    return jobs


def drained(sketch: Sketch) -> None:
    for job in place(sketch, "evicting", "runs")[:1]:
        job.phase = "evicting"
    sketch.state.nodes[0].drain, sketch.state.draining = Drain(1, "quick", due=True), {0: None}


def broken_devices(sketch: Sketch) -> None:
    first, second = place(sketch, "evicting", "runs")
    first.tasks[0].device_failed = second.tasks[0].device_failed = True
    first.phase, first.eviction = "evicting", Eviction(1, "drain", 5)


def broken_gangs(sketch: Sketch) -> None:
    first, second = place(sketch, "evicting", "runs", tasks=2)
    for job in (first, second):
        job.tasks[0].state, job.tasks[0].exit_code = "exited", 1
    first.phase = "evicting"


def cancelled_of_decisions_job_by_job(sketch: Sketch) -> None:
    for name in ("kept", "waits"):
        sketch.job(name).cancelled = name == "waits"
        sketch.state.indices.touched[name] = None


def free_to_start(sketch: Sketch) -> None:
    for name in ("cancelled", "waits"):
        job = sketch.job(name)
        job.phase, job.cancelled = "waiting", name == "cancelled"
        sketch.state.indices.touched[name] = None


def unneeded(sketch: Sketch, first: Eviction, *, exited: bool = False) -> None:
    """The second is evicted for a preemption that is over, the first for another reason."""
    jobs = place(sketch, "evicting", "runs", tasks=2)
    for job, eviction in zip(jobs, (first, Eviction(3, "preemption", 5, preemption=7, for_job="gone")), strict=True):
        job.phase, job.eviction = "evicting", eviction
        sketch.state.evicting[job.id] = None
    if exited:
        jobs[0].tasks[0].state = "exited"


def of_a_cancelled_job(sketch: Sketch) -> None:
    unneeded(sketch, Eviction(2, "cancelled", 5))


def of_a_job_that_does_not_move_after_all(sketch: Sketch) -> None:
    unneeded(sketch, Eviction(2, "migration", 5))


def of_a_node_that_is_drained_no_more(sketch: Sketch) -> None:
    unneeded(sketch, Eviction(2, "drain", 5))


def of_a_job_one_task_of_which_has_exited(sketch: Sketch) -> None:
    unneeded(sketch, Eviction(2, "preemption", 5, preemption=6, for_job="gone", started_seq=4), exited=True)


@pytest.mark.parametrize(
    ("prepare", "decide", "decided"),
    [
        (drained, drains, ["EvictionDecided runs"]),
        (broken_devices, device_evictions, ["EvictionDecided runs"]),
        (broken_gangs, broken_attempts, ["EvictionDecided runs"]),
        (cancelled_of_decisions_job_by_job, cancelled_jobs, ["JobEnded waits"]),
        (free_to_start, dependencies, ["DependenciesMet waits"]),
        (of_a_cancelled_job, cancelled_evictions_of_preemptions, ["EvictionCancelled runs"]),
        (
            of_a_job_that_does_not_move_after_all,
            cancelled_evictions_of_preemptions,
            ["EvictionCancelled evicting", "EvictionCancelled runs"],
        ),
        (
            of_a_node_that_is_drained_no_more,
            cancelled_evictions_of_preemptions,
            ["EvictionCancelled evicting", "EvictionCancelled runs"],
        ),
        (of_a_job_one_task_of_which_has_exited, cancelled_evictions_of_preemptions, ["EvictionCancelled runs"]),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_rule_passes_a_job_that_it_does_not_concern(
    prepare: Callable[[Sketch], None], decide: Callable[[PoolState], Iterator[Decision]], decided: list[str]
) -> None:
    sketch = Sketch()
    sketch.node("a")
    prepare(sketch)
    found: list[Any] = list(decide(sketch.state))
    assert [f"{type(each).__name__} {each.job}" for each in found] == decided
