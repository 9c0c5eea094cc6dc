"""What the demo says of each preemption, from records as the log has them."""

from typing import Any

from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.payload import Payload
from bailiff_devstack.demo_costs import preemption_costs

JOB = "train-1"
MS = 1000


def record(at_ms: int, data: Payload) -> Record:
    return Record(
        pool="pool-a",
        seq=at_ms,
        epoch=1,
        cycle=1,
        cycle_end=True,
        time=at_ms * MS,
        prev="",
        writer="w",
        engine="e/0/1",
        policy=1,
        type=data.type_name(),
        data=data,
    )


def task(attempt: int = 1, **more: Any) -> dict[str, Any]:
    return {"job": JOB, "attempt": attempt, "task": 0, "node": "node-1", **more}


def back(at_ms: int, attempt: int, step: int, lost: int) -> list[Record]:
    return [
        record(at_ms, decisions.JobPlaced(job=JOB, attempt=attempt, placement=(), reserved=False)),
        record(at_ms + 10, facts.TaskStarted(**task(attempt))),
        record(at_ms + 20, facts.TaskResumed(**task(attempt, step=step, from_attempt=1, steps_lost=lost))),
    ]


def test_a_drain_and_a_kill_each_with_its_times_and_its_steps() -> None:
    history = [
        record(1000, decisions.EvictionDecided(job=JOB, attempt=1, cause="drain", grace=1)),
        record(1010, facts.EvictionStarted(job=JOB, attempt=1, decided_by=1)),
        record(1090, facts.EvictionStageReached(**task(stage="noticed", elapsed=5 * MS))),
        record(1095, facts.EvictionStageReached(**task(stage="acknowledged", elapsed=55 * MS))),  # so the notice was out at 1040
        record(1200, facts.TaskExited(**task(exit_code=85, step=41))),
        record(1210, facts.TaskReleased(**task())),
        record(1211, decisions.JobRequeued(job=JOB, attempt=1, outcome="preempted", cause="drain")),
        *back(1300, 2, 42, 0),
        record(2050, facts.TaskExited(**task(2, exit_code=-9, step=99))),
        record(2060, facts.TaskReleased(**task(2))),
        *back(2600, 3, 80, 20),
        record(3000, facts.TaskExited(**task(3, exit_code=0, step=120))),
        record(3000, facts.TaskExited(**{**task(3, exit_code=1), "job": "another"})),
    ]
    drain, kill = preemption_costs(history, JOB, killed_at=2000 * MS)
    assert (drain.cause, drain.last_step, drain.resumed_at, drain.steps_lost) == ("drain", 41, 42, 0)
    since = {stage: micros // MS for stage, micros in drain.since().items()}
    assert since == {
        "decided": 0,
        "eviction started": 10,
        "notice": 40,
        "acknowledged": 95,
        "exited": 200,
        "GPU released": 210,
        "requeued": 211,
        "placed": 300,
        "restarted": 310,
        "resumed": 320,
    }
    assert (kill.cause, kill.last_step, kill.resumed_at, kill.steps_lost) == ("kill -9", 99, 80, 20)
    assert {"exited": 50, "placed": 600}.items() <= {stage: at // MS for stage, at in kill.since().items()}.items()


def test_a_program_that_its_node_saves_has_lost_no_step_though_it_counts_none() -> None:
    history = [
        record(1000, decisions.EvictionDecided(job=JOB, attempt=1, cause="drain", grace=1)),
        record(1090, facts.EvictionStageReached(**task(stage="noticed", elapsed=5 * MS))),
        record(1095, facts.EvictionStageReached(**task(stage="frozen", elapsed=55 * MS, driver="criu"))),
        record(1150, facts.EvictionStageReached(**task(stage="stored", elapsed=80 * MS, driver="criu", sha256="a" * 64))),
        record(1200, facts.TaskExited(**task(exit_code=-9))),
        record(1300, facts.TaskRestored(**task(2, from_attempt=1, driver="criu", bytes=7))),
    ]
    (drain,) = preemption_costs(history, JOB, killed_at=0)
    assert (drain.saved, drain.last_step, drain.steps_lost) == (True, None, 0)
    since = {stage: micros // MS for stage, micros in drain.since().items()}
    assert since == {"decided": 0, "notice": 40, "stopped": 95, "snapshot stored": 120, "exited": 200, "restored": 300}
