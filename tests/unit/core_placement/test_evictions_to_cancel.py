"""Victims of a preemption whose preemptor loses its reservation to another: they keep running where their place is free."""

import pytest
from tests.kits.builders import Sketch, group, requested_unit

from bailiff_core.model.gpu_shares import task_resources
from bailiff_core.model.resources import add
from bailiff_core.model.state import Eviction, Job, Preemption
from bailiff_core.placement import ClusterResources, GangPlacement, TaskPlacement
from bailiff_core.victims import evictions_to_cancel


@pytest.fixture
def sketch() -> Sketch:
    """One node with eight GPUs and CPUs."""
    made = Sketch()
    made.node("a", gpus=8, cpu=8)
    return made


def promised(sketch: Sketch, *victims: str, plan: int = 5) -> Job:
    """The gang for which these were evicted."""
    gang = sketch.job(f"promised-{plan}")
    gang.preemption, sketch.state.preemptions[plan] = plan, Preemption(plan, gang.id, list(victims))
    return gang


def evicting(sketch: Sketch, name: str, devices: range, cpu: int = 0, plan: int = 5) -> Job:
    job = sketch.job(name, group(gpus=len(devices), cpu=cpu))
    return sketch.at(job, ("a", devices), phase="evicting", preemption=plan)


def sheds(sketch: Sketch, job: Job, index: int, plan: int | None) -> None:
    """One task of the running job is being evicted."""
    task, node = job.tasks[index], sketch.state.nodes[0]
    task.eviction = Eviction(1, "preemption", 0, preemption=plan)
    add(node.releasing, *task_resources(node, job.group(index), task.devices))


def cancelled(sketch: Sketch, *dropped: Job, taken: tuple[range, int] | None = None) -> list[str]:
    """taken: devices and CPUs that another gang takes."""
    cluster = ClusterResources.of(sketch.state)
    if taken is not None:
        gang = sketch.job("urgent", group(gpus=len(taken[0]), cpu=taken[1]))
        mask = sum(1 << number for number in taken[0])
        cluster.place(requested_unit(gang), GangPlacement((TaskPlacement(0, 0, mask),), future=True))
    return evictions_to_cancel(sketch.state, cluster, dropped)


def test_all_victims_of_the_preemption_whose_place_is_free(sketch: Sketch) -> None:
    evicting(sketch, "left", range(4))
    evicting(sketch, "right", range(4, 8))
    gang = promised(sketch, "left", "right")
    assert cancelled(sketch, gang) == ["left", "right"]
    assert cancelled(sketch, gang, taken=(range(4, 5), 0)) == ["left"]


def test_what_one_of_them_takes_back_is_not_there_for_the_next(sketch: Sketch) -> None:
    evicting(sketch, "left", range(2), cpu=4)
    evicting(sketch, "right", range(2, 4), cpu=4)
    assert cancelled(sketch, promised(sketch, "left", "right"), taken=(range(4, 8), 4)) == ["left"]


def test_victims_of_other_preemptions_and_forgotten_ones_are_left_alone(sketch: Sketch) -> None:
    evicting(sketch, "other", range(4), plan=6)
    evicting(sketch, "ours", range(4, 8))
    assert cancelled(sketch, promised(sketch, "forgotten", "other", "ours")) == ["ours"]
    without_preemption = sketch.job("by-allocate")
    assert cancelled(sketch, without_preemption) == []


def test_surplus_tasks_that_were_evicted_for_it(sketch: Sketch) -> None:
    """`wide` sheds its last two of four tasks for the gang, and has lost one to another preemption."""
    wide = sketch.at(sketch.job("wide", group(4, gpus=2)), *[("a", range(at, at + 2)) for at in range(0, 8, 2)])
    gang = promised(sketch, "wide")
    assert cancelled(sketch, gang) == [], "no task of it is being evicted"
    sheds(sketch, wide, 1, plan=6)
    assert cancelled(sketch, gang) == [], "none for this preemption"
    sheds(sketch, wide, 2, plan=5)
    sheds(sketch, wide, 3, plan=5)
    assert cancelled(sketch, gang) == ["wide"]


@pytest.mark.parametrize(("taken", "stays"), [(range(1), True), (range(2, 4), True), (range(4, 5), False), (range(7, 8), False)])
def test_surplus_stays_only_where_all_of_it_that_was_evicted_for_the_gang_does(sketch: Sketch, taken: range, stays: bool) -> None:
    wide = sketch.at(sketch.job("wide", group(3, gpus=2)), *[("a", range(at, at + 2)) for at in range(2, 8, 2)])
    sheds(sketch, wide, 0, plan=6)
    sheds(sketch, wide, 1, plan=5)
    sheds(sketch, wide, 2, plan=5)
    assert cancelled(sketch, promised(sketch, "wide"), taken=(taken, 0)) == (["wide"] if stays else [])


def test_a_task_that_has_exited_needs_no_place(sketch: Sketch) -> None:
    wide = sketch.at(sketch.job("wide", group(2, gpus=2)), ("a", range(2)), ("a", range(2, 4)))
    sheds(sketch, wide, 1, plan=5)
    wide.tasks[1].state = "exited"
    assert cancelled(sketch, promised(sketch, "wide")) == []
