"""Gangs of several task types on large pools: each type is solved for itself, beside what the others take."""

import pytest
from tests.builders import GIB, Sketch, group, requested_unit

from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Device, Job
from bailiff_core.placement import StepBudget
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, candidates, heterogeneous_gangs, select_victims, shortlist


@pytest.fixture(autouse=True)
def every_pool_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heterogeneous_gangs, "MIN_ACTIVE_JOBS", 0)
    monkeypatch.setattr(shortlist, "MIN_ACTIVE_JOBS", 0)
    monkeypatch.setattr(candidates, "SHORTLIST_COST", 0)  # as in a pool of very many jobs, where a shortlist is always cheaper


def ask(sketch: Sketch, preemptor: Job) -> Proposal:
    sketch.state.indices.snapshot = None
    batch = SelectionBatch.on(current_snapshot(sketch.state))
    return select_victims(batch, requested_unit(preemptor), "preempt", StepBudget(20_000))


def elastic(sketch: Sketch, name: str, *places: tuple[str, range], minimum: int = 1) -> Job:
    """A running job that needs only `minimum` of these tasks of four GPUs."""
    job = sketch.at(sketch.job(name, group(len(places), gpus=4)), *places)
    job.demand = job.demand.model_copy(update={"min_tasks": minimum})
    return job


def one_of_each_type(sketch: Sketch) -> Job:
    """Two tasks of four GPUs, one of which has a CPU, too."""
    return sketch.job("mixed", group(gpus=4), group(gpus=4, cpu=1), priority=75)


def test_two_types_take_two_surplus_tasks_of_one_job() -> None:
    """For each type alone the last task suffices: for the second of them it is gone."""
    sketch = Sketch()
    for name in ("a", "b", "c"):
        sketch.node(name, gpus=4)
    elastic(sketch, "wide", ("a", range(4)), ("b", range(4)), ("c", range(4)))
    answer = ask(sketch, one_of_each_type(sketch))
    assert [(choice.job, choice.tasks) for choice in answer.victims] == [("wide", "1-2")]
    assert [share.node for share in answer.placement] == [1, 2]


def test_after_the_surplus_of_a_job_the_next_type_takes_another_job() -> None:
    sketch = Sketch()
    for name in ("a", "b", "c"):
        sketch.node(name, gpus=4)
    elastic(sketch, "wide", ("a", range(4)), ("b", range(4)))
    sketch.running("other", "c", range(4), age=0)
    answer = ask(sketch, one_of_each_type(sketch))
    assert [(choice.job, choice.tasks) for choice in answer.victims] == [("wide", "1"), ("other", "")]


def test_surplus_tasks_are_reprieved_in_the_reverse_order_of_their_eviction() -> None:
    """One type needs a node of its own and takes both surplus tasks; the other finds free GPUs."""
    sketch = Sketch()
    sketch.node("a", gpus=4)
    sketch.node("b", gpus=4)
    sketch.node("c", gpus=4)
    elastic(sketch, "wide", ("a", range(4)), ("b", range(4)), ("c", range(4)))
    preemptor = sketch.job("mixed", group(gpus=4, nodes=("b",)), group(gpus=4, cpu=1), priority=75)
    answer = ask(sketch, preemptor)
    assert [(choice.job, choice.tasks) for choice in answer.victims] == [("wide", "1-2")]


def test_a_task_that_may_run_elsewhere_does_not_count_where_only_the_other_type_may_run() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=1, labels={"zone": "x"})
    sketch.node("b", gpus=1)
    sketch.running("on-a", "a", [0])
    sketch.running("on-b", "b", [0])
    answer = ask(sketch, sketch.job("mixed", group(gpus=1), group(gpus=1, cpu=1, node_labels={"zone": "x"}), priority=75))
    assert sorted(choice.job for choice in answer.victims) == ["on-a", "on-b"]


def test_a_task_on_a_mig_device_does_not_count_among_those_on_whole_gpus() -> None:
    sketch = Sketch()
    node = sketch.node("a", gpus=2)
    node.devices[1] = Device(1, "m", "h100", 10 * GIB, kind="mig", profile="1g.10gb")
    sketch.running("on-gpu", "a", [0])
    small = group(gpus=1, mig_profile="1g.10gb")
    sketch.at(sketch.job("on-mig", small), ("a", [1]))
    answer = ask(sketch, sketch.job("mixed", group(gpus=1), small, priority=75))
    assert sorted(choice.job for choice in answer.victims) == ["on-gpu", "on-mig"], answer


def test_where_each_type_fits_alone_but_not_both_all_victims_are_searched() -> None:
    """Two tasks of two GPUs fit on the node, as the count of slots says, and one of three; not one of each."""
    sketch = Sketch()
    sketch.node("a", gpus=4)
    for number in range(4):
        sketch.running(f"r{number}", "a", [number])
    answer = ask(sketch, sketch.job("mixed", group(gpus=3), group(gpus=2), priority=75))
    assert (answer.refused, answer.explanation.proven, answer.explanation.candidates) == ("impossible", True, 4)
