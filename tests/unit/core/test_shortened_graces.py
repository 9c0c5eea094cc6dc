"""Whatever grace an eviction began with: a cancel, a request, a fast drain and the policy shorten it on record, and end it."""

import pytest
from tests.kits.claims import EVERY_CLAIM
from tests.kits.log_builder import HOUR, MINUTE, SECOND, policy
from tests.kits.story_script import play

from bailiff_bus.messages.commands import Evict
from bailiff_core.model.document import TEN_YEARS
from bailiff_core.records import facts
from bailiff_eviction_executor.pending_messages import pending_commands

GRANTED = {"claims": EVERY_CLAIM.model_dump(mode="json")}


@pytest.fixture
def ignored(tell):
    """A job that the policy grants ten years of grace, and that ignores its notice and TERM."""
    story = tell(policy(**GRANTED))
    story.node("n1", gpus=8)
    story.runs("stubborn", gpus=8, grace=TEN_YEARS)
    story.pause("stubborn")
    story.begin("stubborn", after=SECOND)
    noticed(story, TEN_YEARS)
    return story


def noticed(story, kill_after):
    """The node says that it carries out an eviction with this grace."""
    at = story.at("stubborn", 0)
    story.cycle(facts.EvictionStageReached(**at, stage="noticed", attached=True, kill_after=kill_after, term_after=0))


def shortened(story):
    """What the record of the shortened grace says."""
    found = story.expect("GraceShortened")
    return found.grace, found.earlier, found.cause


def test_a_cancel_leaves_it_the_policy_s_grace_from_now(ignored):
    ignored.cancel("stubborn", after=MINUTE)
    assert shortened(ignored) == (MINUTE + 150 * SECOND, TEN_YEARS, "cancelled")
    ignored.wait(SECOND)
    assert len(list(ignored.decisions("GraceShortened"))) == 1, "once is enough"


def test_an_operator_names_the_time_that_is_left(ignored):
    ignored.cycle(facts.JobEvictionRequested(request=ignored.request(), job="stubborn", grace=5 * SECOND), after=MINUTE)
    assert shortened(ignored) == (MINUTE + 5 * SECOND, TEN_YEARS, "requested")
    ignored.cycle(facts.JobEvictionRequested(request=ignored.request(), job="stubborn", grace=HOUR))
    assert len(list(ignored.decisions("GraceShortened"))) == 1, "no request gives a victim more time"


def test_a_fast_drain_leaves_it_the_short_grace(ignored):
    ignored.drain("n1", "fast")
    assert shortened(ignored) == (5 * SECOND, TEN_YEARS, "drain")


def test_the_deadline_of_a_drain_is_its_last(ignored):
    ignored.drain("n1", "quick", deadline=20 * SECOND)
    assert shortened(ignored) == (20 * SECOND, TEN_YEARS, "drain")


def test_a_policy_that_grants_less_applies_to_evictions_in_progress(ignored):
    ignored.apply_policy(policy(claims={"grace": "4m"}))
    assert shortened(ignored) == (4 * MINUTE, TEN_YEARS, "policy")


def test_what_shortened_it_before_it_began_is_decided_once_it_begins(tell):
    story = tell(policy(**GRANTED))
    story.node("n1", gpus=8)
    story.runs("stubborn", gpus=8, grace=TEN_YEARS)
    play("pause stubborn; drain n1 fast; +1s; begin stubborn", story=story)
    assert shortened(story) == (5 * SECOND, TEN_YEARS, "drain")


def test_a_new_eviction_of_a_cancelled_job_has_no_more_than_the_policy_s_grace(tell):
    story = tell(policy(**GRANTED))
    story.node("n1", gpus=8)
    story.runs("stubborn", gpus=8, grace=TEN_YEARS)
    story.cancel("stubborn")
    assert story.expect("EvictionDecided").grace == 150 * SECOND


@pytest.mark.parametrize("kind", ["JobCancelled", "JobEvictionRequested"])
def test_a_request_may_name_the_grace(tell, kind):
    story = tell(policy(**GRANTED))
    story.node("n1", gpus=8)
    story.runs("train", gpus=8)
    story.cycle(getattr(facts, kind)(request=story.request(), job="train", grace=2 * SECOND))
    assert story.expect("EvictionDecided").grace == 2 * SECOND


def test_the_limit_of_a_request_ends_with_the_attempt(tell):
    story = tell(policy(**GRANTED))
    story.node("n1", gpus=8)
    story.runs("train", gpus=8)
    story.cycle(facts.JobEvictionRequested(request=story.request(), job="train", grace=2 * SECOND))
    play("yields train; started train; evict train", story=story)
    assert story.expect("EvictionDecided").grace == 150 * SECOND


def test_a_spared_victim_that_its_node_kills_all_the_same_is_killed_in_time(tell):
    story = tell(policy(**GRANTED))
    story.node("n1", gpus=8)
    story.runs("stubborn", gpus=8, grace=TEN_YEARS)
    play(
        "submit urgent: inference, 8 gpus; propose; +1s; begin stubborn; drain n1 fast; => EvictionCancelled notified=true",
        "cancel_eviction_refused stubborn",
        story=story,
    )
    assert shortened(story) == (5 * SECOND, TEN_YEARS, "drain")


def commands(story):
    """The graces of the commands that wait for an effect."""
    return [(command.grace, command.ordered_by.seq) for command in pending_commands(story.state) if isinstance(command, Evict)]


def test_the_executor_tells_the_agent_until_it_carries_out_the_shorter_grace(ignored):
    assert commands(ignored) == []
    ignored.drain("n1", "fast")
    ordered = ignored.job("stubborn").eviction.shortened_seq
    assert commands(ignored) == [(5 * SECOND, ordered)]
    noticed(ignored, 5 * SECOND)
    assert commands(ignored) == []


def test_the_executor_tells_an_agent_that_has_not_killed_in_time_to_kill_now(ignored):
    ignored.drain("n1", "fast")
    noticed(ignored, 5 * SECOND)
    ignored.wait(5 * SECOND + 121 * SECOND)
    ignored.expect("EvictionStuck")
    assert [grace for grace, _ in commands(ignored)] == [0]
    ignored.staged("stubborn", "kill_sent")
    assert commands(ignored) == []
