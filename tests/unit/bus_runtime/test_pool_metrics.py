"""Pool metrics: exported by the owner of the pool, and by no replica afterwards."""

from bailiff_core.model.evictions import ActiveEviction
from bailiff_core.model.state import Eviction, Task
from bailiff_service.metrics import NODES, Metrics
from bailiff_service.pool_metrics import STAGES, stage_of


def leaving(*tasks: Task, **eviction: object) -> ActiveEviction:
    begun = {"started_seq": 5, **eviction}
    return ActiveEviction(None, Eviction(4, "preemption", 30, **begun), list(tasks), "")  # type: ignore[arg-type]


def task(state: str = "running", **reached: bool) -> Task:
    return Task(0, 0, 1, state, **reached)  # type: ignore[arg-type]


def test_an_eviction_has_come_as_far_as_the_slowest_of_its_tasks() -> None:
    term_sent_task, gone = task(noticed=True, term_sent=True), task("exited", noticed=True, term_sent=True, kill_sent=True)
    assert stage_of(leaving(task(), started_seq=None)) == "decided"
    assert stage_of(leaving(task(), term_sent_task)) == "started"
    assert stage_of(leaving(task(noticed=True), term_sent_task)) == "noticed"
    assert stage_of(leaving(gone, term_sent_task)) == "term-sent"
    assert stage_of(leaving(gone, task(noticed=True, term_sent=True, kill_sent=True))) == "kill-sent"
    assert stage_of(leaving(gone, task("released"))) == "exited"
    assert stage_of(leaving(term_sent_task, cancel_seq=7)) == "cancelled"
    assert stage_of(leaving(term_sent_task, stuck=True)) == "stuck"
    assert len(STAGES) == 12


def test_a_pool_is_exported_only_while_a_replica_owns_it() -> None:
    metrics = Metrics()
    with metrics.pools.export("pool-a", lambda: [(NODES, ("ready",), 3)]):
        assert b'bailiff_nodes{pool="pool-a",state="ready"} 3.0' in metrics.text()
    assert b"pool-a" not in metrics.text()
