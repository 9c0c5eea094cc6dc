"""What a drain would do: the jobs that it would evict or take a reservation from."""

import pytest
from tests.kits.builders import Sketch, group
from tests.kits.story_script import play

from bailiff_core.actions.migrate import moves_off_drained_nodes
from bailiff_core.lifecycle.operator_actions import affected_by_drain
from bailiff_core.model.state import Drain


def affected(story, node):
    found = affected_by_drain(story.state, story.state.nodes[story.state.node_numbers[node]])
    return [(each.job.id, each.tasks, each.whole, each.reserved) for each in found]


def node_of(story, job, task):
    return story.state.nodes[story.job(job).tasks[task].node].name


def test_an_idle_node_affects_nobody():
    story = play("node n1; node n2; runs there: 8 gpus")
    idle = "n2" if node_of(story, "there", 0) == "n1" else "n1"
    assert affected(story, idle) == []


def test_a_gang_with_one_task_there_is_evicted_whole():
    story = play("node n1; node n2; runs gang: 2 x 8 gpus")
    on = node_of(story, "gang", 1)
    assert affected(story, on) == [("gang", (1,), True, False)]


def test_of_an_elastic_gang_only_the_tasks_there_are_evicted():
    story = play("node n1; node n2; runs elastic: 2 x 8 gpus, min 1; started elastic")
    on = node_of(story, "elastic", 1)
    assert affected(story, on) == [("elastic", (1,), False, False)]


def test_a_job_that_is_being_evicted_counts_as_whole():
    story = play("node n1; node n2; runs elastic: 2 x 8 gpus, min 1; started elastic")
    on = node_of(story, "elastic", 1)
    story.evict("elastic")
    assert affected(story, on) == [("elastic", (1,), True, False)]


def test_a_released_task_is_not_affected_any_more():
    story = play("node n1; runs gang: 2 x 4 gpus; ends gang task=0; gang.tasks.0.state = released")
    assert affected(story, "n1") == [("gang", (1,), True, False)]


def test_a_job_whose_tasks_there_are_released_is_not_affected():
    sketch = Sketch(a=8, b=8)
    job = sketch.at(sketch.job("job", group(2, gpus=1)), ("a", [0]), ("b", [0]))
    job.tasks[0].state = "released"
    assert affected_by_drain(sketch.state, sketch.state.nodes[0]) == []


def test_a_pending_gang_would_lose_its_reservation():
    story = play("node n1; node n2; runs low: 8 gpus; runs other: 8 gpus; submit high: interactive, 8 gpus; propose")
    promised, kept = node_of(story, "high", 0), node_of(story, "low", 0)
    there = "low" if promised == kept else "other"
    assert affected(story, promised) == [(there, (0,), True, False), ("high", (0,), True, True)]
    assert ("high", (0,), True, True) not in affected(story, "n1" if promised == "n2" else "n2")


@pytest.mark.parametrize(("minimum", "moves"), [(2, True), (1, False)])
def test_under_a_graceful_drain_only_a_gang_that_cannot_run_without_the_node_is_moved(minimum, moves):
    sketch = Sketch(a=8, b=8)
    job = sketch.at(sketch.job("gang", group(2, gpus=4)), ("a", range(4)), ("b", range(4)))
    job.demand = job.demand.model_copy(update={"min_tasks": minimum})
    for task in job.tasks:
        task.attached = True
    sketch.state.nodes[0].drain = Drain(1, "graceful")
    sketch.state.draining[0] = None
    assert moves_off_drained_nodes(sketch.state, job) is moves
