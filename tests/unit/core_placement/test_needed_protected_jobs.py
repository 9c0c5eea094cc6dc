"""Which protected jobs a refused preemptor would still need, as a sentence: so many by name, the others as a number."""

import pytest
from tests.builders import Sketch, group, requested_unit

from bailiff_core.model.demand import TaskGroup
from bailiff_core.placement import StepBudget
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, infeasibility, select_victims


def refusal(sketch: Sketch, asked: TaskGroup) -> str:
    preemptor = sketch.job("preemptor", asked, priority=75)
    batch = SelectionBatch.on(current_snapshot(sketch.state))
    answer = select_victims(batch, requested_unit(preemptor), "preempt", StepBudget(20_000))
    assert answer.refused == "impossible"
    return answer.would_need.partition("it would still need ")[2]


@pytest.mark.parametrize(("jobs", "more"), [(5, ""), (6, "; 1 more such jobs"), (7, "; 2 more such jobs")])
def test_five_are_named(jobs: int, more: str) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=jobs)
    for number in range(jobs):
        sketch.running(f"j{number}", "a", [number], preemptible=False)
    named = "; ".join(f"'j{number}', which is not preemptible" for number in range(5))
    assert refusal(sketch, group(gpus=jobs)) == f"the resources ({jobs} GPUs) of {named}{more}"


@pytest.mark.parametrize(("gpus", "what"), [(1, "the resources (1 GPU)"), (0, "the resources")])
def test_gpus_are_counted_where_there_are_any(gpus: int, what: str) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=1, cpu=4)
    sketch.at(sketch.job("firm", group(gpus=gpus, cpu=4), preemptible=False), ("a", range(gpus)))
    assert refusal(sketch, group(cpu=4)) == f"{what} of 'firm', which is not preemptible"


@pytest.mark.parametrize(("most", "named"), [(1, False), (2, True)])
def test_of_too_many_protected_jobs_none_is_named(monkeypatch: pytest.MonkeyPatch, most: int, named: bool) -> None:
    monkeypatch.setattr(infeasibility, "MAX_EXCLUDED", most)
    sketch = Sketch()
    sketch.node("a", gpus=2)
    for number in range(2):
        sketch.running(f"j{number}", "a", [number], preemptible=False)
    assert bool(refusal(sketch, group(gpus=2))) is named


def test_what_a_protected_job_has_where_the_preemptor_may_not_run_is_not_needed() -> None:
    sketch = Sketch()
    for name in ("a", "b"):
        sketch.node(name, gpus=1)
    wide = sketch.at(sketch.job("wide", group(2, gpus=1), preemptible=False), ("a", [0]), ("b", [0]))
    wide.demand = wide.demand.model_copy(update={"min_tasks": 1})
    text = "the resources (1 GPU) of 'wide', which is not preemptible"
    assert refusal(sketch, group(gpus=1, nodes=("a",))) == text
