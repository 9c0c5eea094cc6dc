"""What becomes of jobs that were paused, evicted by request, or lie on a drained node: one rule of the lifecycle at a time."""

from typing import Any

import pytest
from tests.builders import Sketch, group
from tests.unit.core_protections.kit import SECOND, rules

from bailiff_core.actions.migrate import drain_migrations, migrations, moves_off_drained_nodes, place_elsewhere
from bailiff_core.fold.registry import FOLDS
from bailiff_core.lifecycle.operator_actions import drain_grace, drains, paused_jobs, requested_evictions
from bailiff_core.model.state import Drain, Eviction, Job, OperatorRequest, Task
from bailiff_core.placement.gang import GangPlacement
from bailiff_core.records import facts
from bailiff_core.records.decisions import MigrationDecided

EVICTION = Eviction(1, "preemption", 5)


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    for name in ("a", "b", "c"):
        made.node(name, gpus=2)
    return made


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


@pytest.mark.parametrize(
    ("phase", "kind", "decided"),
    [
        ("running", "migrate", ["MigrationDecided"]),
        ("running", "evict", []),
        ("evicting", "migrate", []),
        ("pending", "migrate", []),
    ],
)
def test_only_a_job_with_placed_tasks_migrates_by_request(sketch: Sketch, phase: Any, kind: Any, decided: list[str]) -> None:
    placed(sketch, phase, operator_request=OperatorRequest(3, kind))
    assert [kind for kind, _ in reasons(migrations(sketch.state))] == decided


# --- drained nodes


def drain(sketch: Sketch, *names: str, **about: Any) -> None:
    for name in names:
        number = sketch.state.node_numbers[name]
        sketch.state.nodes[number].drain = Drain(1, **{"mode": "graceful", "reason": name, **about})
        sketch.state.draining[number] = None


def gang(sketch: Sketch, *nodes: str, minimum: int | None = None) -> Job:
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
        ({}, {"eviction": EVICTION}, False),
    ],
)
def test_a_job_moves_off_a_drained_node_if_all_of_it_runs_and_listens(
    sketch: Sketch, job: dict[str, Any], task: dict[str, Any], moves: bool
) -> None:
    drain(sketch, "a")
    found = gang(sketch, "b", "a")
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
    assert moves_off_drained_nodes(sketch.state, gang(sketch, *nodes, minimum=minimum)) is moves


def test_the_reason_of_a_migration_is_the_drained_node_on_which_a_task_runs(sketch: Sketch) -> None:
    sketch.node("d", gpus=2)
    drain(sketch, "b")
    gang(sketch, "a", "b")
    assert reasons(drain_migrations(sketch.state)) == [("MigrationDecided", "b is drained (graceful): b")]


@pytest.mark.parametrize("fast", ["a", "b"])
def test_a_migration_keeps_to_the_drain_that_leaves_the_least_grace(sketch: Sketch, fast: str) -> None:
    sketch.node("d", gpus=2)
    drain(sketch, "ab".replace(fast, ""))
    drain(sketch, fast, mode="fast")
    gang(sketch, "a", "b")
    (decision,) = drain_migrations(sketch.state)
    assert isinstance(decision, MigrationDecided)
    assert (decision.grace, decision.reason) == (sketch.state.rules.eviction.short_grace, f"{fast} is drained (fast): {fast}")


def test_tasks_that_have_not_started_do_not_migrate_with_the_others(sketch: Sketch) -> None:
    job = gang(sketch, "a", "a")
    job.tasks[1].state = "reserved"
    found = place_elsewhere(sketch.state, job, "b")
    assert isinstance(found, GangPlacement)
    assert [task.index for task in found.tasks] == [0]


def test_a_job_that_may_run_to_its_end_keeps_no_other_on_a_drained_node(sketch: Sketch) -> None:
    drain(sketch, "a")
    placed(sketch)  # it does not listen for notices
    gang(sketch, "a")
    assert [(type(each).__name__, each.job) for each in drain_migrations(sketch.state)] == [("MigrationDecided", "gang")]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("about", "request_of", "decide", "decided"),
    [
        ({"paused_seq": 3}, None, paused_jobs, "EvictionDecided"),
        ({}, "evict", requested_evictions, "EvictionDecided"),
        ({}, "migrate", migrations, "MigrationDecided"),
    ],
    ids=("pause", "evict", "migrate"),
)
def test_a_request_is_carried_out_whatever_else_happens_to_a_job_before_it(
    sketch: Sketch, about: dict[str, Any], request_of: Any, decide: Any, decided: str
) -> None:
    sketch.running("other", "b", [0])
    sketch.state.indices.touched["other"] = None
    placed(sketch, **about, operator_request=request_of and OperatorRequest(1, request_of))
    assert [(type(each).__name__, each.job) for each in decide(sketch.state)] == [(decided, "job")]


@pytest.mark.parametrize(
    ("mode", "left", "grace"),
    [
        ("quick", None, 30), ("quick", 40, 30), ("quick", 7, 7), ("quick", 0, 0), ("quick", -1, 0),
        ("fast", None, 5), ("fast", 7, 5), ("fast", 3, 3), ("graceful", 7, 30),
    ],
)  # fmt: skip
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
