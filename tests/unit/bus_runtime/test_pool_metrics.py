"""Pool metrics: exported by the owner of the pool, and by no replica afterwards."""

from tests.kits.log_builder import HOUR, Story, policy

from bailiff_core.model.evictions import ActiveEviction
from bailiff_core.model.state import Eviction, Task
from bailiff_core.records.facts import ClockAdvanced
from bailiff_service.metrics import BUDGET_HOURS, BUDGET_LEVEL, NODES, Metrics
from bailiff_service.pool_metrics import STAGES, pool_samples, stage_of


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


def test_budgets_say_how_far_they_are_used() -> None:
    story = Story(
        policy(budgets=[{"name": "train", "gpu_hours": 10}, {"name": "build", "priority_class": "build", "gpu_hours": 5}])
    )
    story.node("n1", gpus=8)
    story.runs("a", gpus=4)
    samples = []
    for _ in range(4):
        found = {(metric, labels): value for metric, labels, value in pool_samples(story.state)}
        samples.append([found[BUDGET_LEVEL, ("train",)], *(found[BUDGET_HOURS, ("train", kind)] for kind in ("used", "hours"))])
        assert found[BUDGET_LEVEL, ("build",)] == 0
        story.cycle(ClockAdvanced(), after=HOUR)
    assert samples == [[0, 0, 10], [0, 4, 10], [1, 8, 10], [2, 12, 10]]
