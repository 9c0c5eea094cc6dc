"""The outcome of a record: derived from later records, or open where none of them decides it."""

import pytest
from tests.log_builder import MINUTE, SECOND, Story

from bailiff_core.explain import Outcome
from bailiff_core.records import AUDIT_TYPES, Record, decisions, facts


def came_of(story: Story, kind: type, which: int = 0) -> list[str]:
    """What the log says came of the record of this kind."""
    records = [record for record in story.records if isinstance(record.data, kind)]
    return sentences(story, records[which])


def sentences(story: Story, record: Record) -> list[str]:
    outcome = Outcome(record)
    for later in story.records[record.seq + 1 :]:
        outcome.take(later)
    section = outcome.section()
    assert all(0 < seq < len(story.records) for sentence in (section.sentences if section else ()) for seq in sentence.seqs)
    return [sentence.text for sentence in section.sentences] if section else []


@pytest.fixture
def asked() -> Story:
    """low has the machine, and high has asked for it."""
    story = Story()
    story.node("n1", gpus=4)
    story.runs("low", gpus=4)
    story.submit("high", gpus=4, cls="inference", after=MINUTE)
    return story


def test_a_request_without_an_answer_says_so(asked: Story) -> None:
    assert came_of(asked, decisions.PreemptionRequested) == ["Victim selection has not finished yet."]


def test_a_request_that_was_granted_names_the_decision(asked: Story) -> None:
    asked.propose(after=SECOND)
    assert came_of(asked, decisions.PreemptionRequested) == ["low was preempted by high at 01-01 00:01:01, 1s later."]
    assert came_of(asked, facts.ProposalReceived) == ["low was preempted by high at 01-01 00:01:01."]


def test_a_request_that_was_refused_says_why() -> None:
    story = Story()
    story.node("n1", gpus=4)
    story.runs("fixed", gpus=4, preemptible=False)
    story.runs("low", gpus=0)
    story.submit("high", gpus=4, cls="inference")
    story.propose()
    (texts,) = came_of(story, decisions.PreemptionRequested)
    assert texts.startswith(
        "Preemption for high was refused, as no permitted set of victims is sufficient, "
        "which victim selection claims to have proven, at "
    )


def test_a_request_without_a_proposal_in_time_is_repeated(asked: Story) -> None:
    asked.wait(MINUTE)
    (texts,) = came_of(asked, decisions.PreemptionRequested)
    assert texts.startswith("Victim selection timed out, and the request lapsed at 01-01 00:01:05, 5s later")
    assert came_of(asked, decisions.SelectionTimedOut)[0].startswith("Victim selection was started again, as selection 2, at ")


def test_a_decision_is_followed_for_each_victim_and_the_preemptor(asked: Story) -> None:
    asked.propose()
    assert came_of(asked, decisions.PreemptionDecided) == ["low is still being evicted.", "high has not started yet."]
    asked.yields("low", after=5 * SECOND)
    assert came_of(asked, decisions.PreemptionDecided) == [
        "low was requeued (preempted) at 01-01 00:01:05, 5s later.",
        "high was started at 01-01 00:01:05, 5s later.",
    ]


def test_an_abandoned_preemption_leaves_its_victim_running(asked: Story) -> None:
    asked.propose()
    asked.abandon("high")
    texts = came_of(asked, decisions.PreemptionDecided)
    assert texts[0].startswith("The eviction of low was cancelled (")
    assert texts[1].startswith("high lost its reservation (abandoned) at ")


def test_a_submission_says_when_it_got_its_place_and_a_cancellation_when_it_ended(asked: Story) -> None:
    assert came_of(asked, facts.JobSubmitted) == ["low was placed at 01-01 00:00:00."]
    assert came_of(asked, facts.JobSubmitted, 1) == ["high is not placed yet."]
    asked.cancel("high", after=SECOND)
    assert came_of(asked, facts.JobCancelled) == ["high ended (cancelled) at 01-01 00:01:01."]
    assert came_of(asked, facts.JobSubmitted, 1) == ["high ended (cancelled) at 01-01 00:01:01, 1s later."]


def test_a_place_says_how_the_attempt_ended(asked: Story) -> None:
    assert came_of(asked, decisions.JobPlaced) == ["low is still placed."]
    asked.ends("low", after=MINUTE)
    assert came_of(asked, decisions.JobPlaced) == ["low ended (succeeded) at 01-01 00:02:00, 2m later."]
    assert came_of(asked, facts.TaskStarted)[0].startswith("The task exited with code 0 at ")
    assert came_of(asked, facts.TaskExited)[0].startswith("Its resources were released at ")


def test_a_silent_machine_is_followed_to_its_return_or_its_loss() -> None:
    story = Story()
    story.node("n1", gpus=1)
    story.silent("n1", after=MINUTE)
    assert came_of(story, facts.NodeUnreachable) == ["n1 has not reported since."]
    story.reachable("n1", after=SECOND)
    assert came_of(story, facts.NodeUnreachable) == ["n1 was reachable again at 01-01 00:01:01, 1s later."]
    story.silent("n1", after=MINUTE)
    story.lost("n1", after=MINUTE)
    assert came_of(story, facts.NodeUnreachable, 1)[0].startswith("n1 was declared lost at ")


def test_a_policy_says_until_when_it_was_in_force(asked: Story) -> None:
    assert came_of(asked, facts.PolicyApplied) == ["It is still in force."]
    asked.apply_policy(asked.state.rules)
    assert came_of(asked, facts.PolicyApplied)[0].startswith("It was replaced at ")


def test_every_record_of_a_long_story_has_grammatical_sentences(asked: Story) -> None:
    asked.propose()
    asked.yields("low")
    asked.started("high")
    asked.ends("high", after=MINUTE)
    asked.started("low")
    asked.ends("low", code=1)
    for record in asked.records:
        for text in sentences(asked, record):
            assert text.endswith("."), text
            assert ".." not in text, text
            assert text[0].isupper() or text.startswith(("low", "high", "n1")), text


def test_it_reads_no_further_than_needed(asked: Story) -> None:
    asked.propose()
    request = next(record for record in asked.records if isinstance(record.data, decisions.PreemptionRequested))
    outcome = Outcome(request)
    assert not outcome.known
    for later in asked.records[request.seq + 1 :]:
        outcome.take(later)
    assert outcome.known
    assert Outcome(next(record for record in asked.records if isinstance(record.data, facts.PoolCreated))).known


def test_every_record_type_has_an_outcome() -> None:
    """Types that leave nothing open say nothing; none fails."""
    from tests.unit.client.test_record_lines import EXAMPLES, record

    assert set(EXAMPLES) == {kind.NAME for kind in AUDIT_TYPES.values()}
    for name, (data, _) in EXAMPLES.items():
        section = Outcome(record(name, data)).section()
        assert section is None or section.sentences, name
