"""A reservation made in a batch is not taken in the same batch: the next batch may, and all jobs are back in the queue.

Under reclaim there is nothing to take: a promise keeps its project within its share, and what is within it is left alone.
Under preempt a promise that another of the same project got by reclaim is never enough by itself: whoever asks for no more
would have reclaimed that room first, being more urgent, and for more `cap-at-fair-share` asks for running victims of the project
in any case. So only those whom consolidate moved, as here, and under the scope `pool` promises to other projects between
quota and share, are left for the next batch.
"""

import pytest
from tests.kits.log_builder import MINUTE, Story, policy

RULES = policy(preemption={"max_migrations": None})


@pytest.fixture
def story() -> Story:
    """Half of each of two nodes is in use. In one batch somebody is moved for `low`, and `high` wants both nodes."""
    story = Story(RULES)
    story.node("n1", gpus=8)
    story.node("n2", gpus=8)
    story.runs("one", gpus=4, pack="spread")
    story.runs("two", gpus=4, pack="spread")
    story.cycle(story.submitted("low", gpus=8), story.submitted("high", gpus=8, tasks=2, cls="interactive"), after=MINUTE)
    assert [request.job for request in story.state.selection.requests] == ["high", "low"]
    story.propose()
    return story


def test_a_reservation_is_kept_for_the_rest_of_its_batch(story):
    assert story.expect("PreemptionDecided").preemptor.job == "low"
    assert story.expect("PreemptionRefused").preemptor.job == "high"
    assert story.job("low").phase == "reserved"


def test_the_next_batch_may_take_it_and_no_job_is_lost(story):
    (moved,) = [name for name in ("one", "two") if story.job(name).phase == "evicting"]
    story.yields(moved)
    story.wait(5 * MINUTE)
    story.propose()
    decided = story.expect("PreemptionDecided", action="preempt")
    assert decided.preemptor.job == "high"
    assert {choice.job for choice in decided.victims} == {"one", "two", "low"}
    for name in list(story.state.evicting):
        story.yields(name)
    assert story.job("high").phase == "starting"
    assert story.state.queue == ["one", "two", "low"]
