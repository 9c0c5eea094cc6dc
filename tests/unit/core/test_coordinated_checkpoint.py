"""The common checkpoint step of an evicted gang: beyond every reported step, confirmed by all ranks, the same for all."""

import pytest
from tests.kits.log_builder import SECOND, Story
from tests.kits.story_script import play

from bailiff_core.lifecycle.coordinated_checkpoint import common_step
from bailiff_core.model.evictions import active_evictions
from bailiff_core.records import facts
from bailiff_eviction_executor.pending_messages import pending_checkpoint_steps


@pytest.fixture
def gang(story: Story) -> Story:
    """A gang of one rank on each of two nodes, whose eviction has started."""
    play(
        "node n1: 2 gpus; node n2: 2 gpus; runs gang: 2 x 2 gpus; +1m; submit high: inference, 2 gpus; propose; begin gang",
        story=story,
    )
    return story


def stage(story, name, task, after=0, **fields):
    fact = facts.EvictionStageReached.model_validate({**story.at("gang", task), "stage": name, **fields})
    story.cycle(fact, after=after)


def notify_gang(story, steps=(100, 101), step_rate_milli=0, after=0):
    for task, step in enumerate(steps):
        stage(
            story,
            "noticed",
            task,
            after=after if task == len(steps) - 1 else 0,
            attached=True,
            step=step,
            step_rate_milli=step_rate_milli,
        )


def agreed_on(story):
    (entry,) = [entry for entry in active_evictions(story.state) if entry.job.id == "gang"]
    return common_step(entry)


def asked(story):
    """What the executor sends: (node, step, whether it is agreed)."""
    return [(command.node, command.step, command.agreed) for command in pending_checkpoint_steps(story.state)]


def test_no_step_is_proposed_before_all_notices_are_delivered(gang):
    stage(gang, "noticed", 0, attached=True, step=100)
    assert (agreed_on(gang), asked(gang)) == (None, [])


def test_the_step_is_beyond_every_reported_one(gang):
    notify_gang(gang)
    assert agreed_on(gang) == (103, False)
    assert asked(gang) == [("n1", 103, False), ("n2", 103, False)]


def test_it_is_agreed_when_all_ranks_have_confirmed_it_and_is_then_sent_to_all(gang):
    notify_gang(gang)
    stage(gang, "step_confirmed", 0, step=103)
    assert agreed_on(gang) == (103, False)
    assert asked(gang) == [("n2", 103, False)]
    stage(gang, "step_confirmed", 1, step=103)
    assert agreed_on(gang) == (103, True)
    assert asked(gang) == [("n1", 103, True), ("n2", 103, True)]
    stage(gang, "step_agreed", 0, step=103)
    assert asked(gang) == [("n2", 103, True)]
    stage(gang, "step_agreed", 1, step=103)
    assert asked(gang) == []


def test_a_rank_that_is_ahead_raises_it_for_all(gang):
    notify_gang(gang)
    stage(gang, "step_confirmed", 0, step=103)
    stage(gang, "step_confirmed", 1, step=110)
    assert agreed_on(gang) == (110, False)
    assert asked(gang) == [("n1", 110, False)]
    stage(gang, "step_confirmed", 0, step=110)
    assert agreed_on(gang) == (110, True)


def test_stages_tell_how_far_a_rank_has_come(gang):
    stage(gang, "noticed", 0, attached=True, step=100)
    stage(gang, "acknowledged", 0, step=102)
    stage(gang, "term_sent", 0)
    assert [task.step for task in gang.job("gang").tasks] == [102, None]
    stage(gang, "step_agreed", 0, step=200)
    assert gang.job("gang").task(0).step == 102, "an agreed step is ahead of it"


@pytest.mark.parametrize(("step", "done"), [(7, 6), (1, 0), (0, None)])
def test_a_rank_that_resumes_has_done_the_steps_before(step, done):
    story = play("node n1: 2 gpus; runs gang: 2 gpus")
    story.cycle(facts.TaskResumed(**story.at("gang", 0), step=step))
    task = story.job("gang").task(0)
    assert (task.step, task.resumed_step, task.attached) == (done, step, True)


def test_progress_during_the_agreement_does_not_change_it(gang):
    notify_gang(gang)
    stage(gang, "acknowledged", 0, step=102, after=SECOND)
    assert agreed_on(gang) == (103, False)


def test_a_gang_that_has_lost_a_rank_agrees_on_nothing(gang):
    notify_gang(gang)
    gang.cycle(facts.TaskExited(**gang.at("gang", 0), exit_code=1))
    assert (agreed_on(gang), asked(gang)) == (None, [])


def test_ranks_that_are_not_cooperative_get_no_step(gang):
    for task in (0, 1):
        stage(gang, "noticed", task)
    assert (agreed_on(gang), asked(gang)) == (None, [])


def test_a_single_task_needs_no_common_step():
    story = play("node n1: 2 gpus; runs gang: 2 gpus; +1m; submit high: inference, 2 gpus; propose; begin gang")
    stage(story, "noticed", 0, attached=True, step=5)
    assert (agreed_on(story), asked(story)) == (None, [])
