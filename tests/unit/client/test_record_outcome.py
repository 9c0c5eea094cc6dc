"""The outcome of a record: derived from later records, or open where none of them decides it."""

import pytest
from tests.kits.log_builder import MINUTE, SECOND, Story
from tests.kits.story_script import play

from bailiff.explain.outcome import Outcome
from bailiff_core.records import Record, decisions, facts


def came_of(story: Story, kind: type, which: int = 0) -> list[str]:
    """What the log says came of the record of this kind."""
    records = [record for record in story.records if isinstance(record.data, kind)]
    return sentences(story, records[which])


def sentences(story: Story, record: Record) -> list[str]:
    outcome = Outcome(record)
    for later in story.records[record.seq + 1 :]:
        outcome.take(later)
    section = outcome.section(story.state)
    assert all(0 < seq < len(story.records) for sentence in (section.sentences if section else ()) for seq in sentence.seqs)
    return [sentence.text for sentence in section.sentences] if section else []


@pytest.fixture
def asked() -> Story:
    """low has the machine, and high has asked for it."""
    return play("node n1: 4 gpus; runs low: 4 gpus; +1m; submit high: inference, 4 gpus")


def test_a_request_without_an_answer_says_so(asked: Story) -> None:
    assert came_of(asked, decisions.PreemptionRequested) == ["Victim selection has not finished yet."]


def test_a_request_that_was_granted_names_the_decision(asked: Story) -> None:
    asked.propose(after=SECOND)
    (later,), (now,) = came_of(asked, decisions.PreemptionRequested), came_of(asked, facts.ProposalReceived)
    assert later.startswith("At 01-01 00:01:01, 1s later: Preemption decided: low → evict for high (inference 125 > train 50), ")
    assert now.startswith("At 01-01 00:01:01: Preemption decided: low → evict for high ")


def test_a_request_that_was_refused_says_why() -> None:
    story = play(
        "node n1: 4 gpus; runs fixed: 4 gpus, preemptible false; runs low: 0 gpus; submit high: inference, 4 gpus; propose"
    )
    (texts,) = came_of(story, decisions.PreemptionRequested)
    assert "Preemption refused: high, no permitted set of victims is sufficient, which victim selection claims" in texts


def test_a_request_without_a_proposal_in_time_is_repeated(asked: Story) -> None:
    asked.wait(MINUTE)
    (texts,) = came_of(asked, decisions.PreemptionRequested)
    assert texts.startswith("At 01-01 00:01:05, 5s later: Selection timed out: selection 1, ")
    assert ": Preemption requested: high" in came_of(asked, decisions.SelectionTimedOut)[0]


def test_a_job_that_shrinks_is_told_once_with_all_its_tasks() -> None:
    story = play("node n1: 8 gpus; runs wide: 8 x 1 gpu, min 4, elastic live; +1m; submit high: inference, 4 gpus; propose")
    for task in (4, 6):
        story.exits("wide", code=85, task=task)
        story.releases("wide", task=task)
    assert came_of(story, decisions.PreemptionDecided)[0] == "wide is still being evicted."
    for task in (5, 7):
        story.exits("wide", code=85, task=task, after=SECOND)
        story.releases("wide", task=task)
    shrunk, started = came_of(story, decisions.PreemptionDecided)
    lost = "lost 4.1 GPU-min of work and 4.0 GPU-min to restart (assumed)."
    assert shrunk == f"At 01-01 00:01:02, 2s later: Job shrunk: wide/4-7, continues without them: preemption, {lost}"
    assert ": Job starting: high" in started


def test_a_job_that_restarts_to_shrink_is_told_as_one_eviction() -> None:
    story = play(
        "node n1: 8 gpus; runs wide: 8 x 1 gpu, min 4, elastic restart; +1m; submit high: inference, 4 gpus; propose",
        "yields wide",
    )
    requeued, started = came_of(story, decisions.PreemptionDecided)
    assert "Job requeued: wide, attempt 1 stopped in time: preemption, restarts without tasks 4-7, lost " in requeued
    assert ": Job starting: high" in started


def test_a_decision_is_followed_for_each_victim_and_the_preemptor(asked: Story) -> None:
    asked.propose()
    assert came_of(asked, decisions.PreemptionDecided) == ["low is still being evicted.", "high has not started yet."]
    asked.yields("low", after=5 * SECOND)
    requeued, started = came_of(asked, decisions.PreemptionDecided)
    assert requeued.startswith("At 01-01 00:01:05, 5s later: Job requeued: low, attempt 1 stopped in time: preemption, lost ")
    assert started == "At 01-01 00:01:05, 5s later: Job starting: high, its reserved resources are free."


def test_an_abandoned_preemption_leaves_its_victim_running(asked: Story) -> None:
    asked.propose()
    asked.abandon("high")
    texts = came_of(asked, decisions.PreemptionDecided)
    assert "Eviction cancelled: low, high no longer needs the resources" in texts[0]
    assert "Reservation dropped: high, its preemption was abandoned" in texts[1]


def test_a_submission_says_when_it_got_its_place_and_a_cancellation_when_it_ended(asked: Story) -> None:
    assert came_of(asked, facts.JobSubmitted) == ["At 01-01 00:00:00: Job placed: low → n1 [0-3]."]
    assert came_of(asked, facts.JobSubmitted, 1) == ["high is not placed yet."]
    asked.cancel("high", after=SECOND)
    assert came_of(asked, facts.JobCancelled) == ["At 01-01 00:01:01: Job ended: high, cancelled."]
    assert came_of(asked, facts.JobSubmitted, 1) == ["At 01-01 00:01:01, 1s later: Job ended: high, cancelled."]


def test_a_place_says_how_the_attempt_ended(asked: Story) -> None:
    assert came_of(asked, decisions.JobPlaced) == ["low is still placed."]
    asked.ends("low", after=MINUTE)
    assert came_of(asked, decisions.JobPlaced) == ["At 01-01 00:02:00, 2m later: Job ended: low, succeeded."]
    assert came_of(asked, facts.TaskStarted)[0].endswith(": Task exited: low/0, on n1, exit code 0.")
    assert ": Task released: low/0, " in came_of(asked, facts.TaskExited)[0]


def test_a_silent_machine_is_followed_to_its_return_or_its_loss() -> None:
    story = play("node n1: 1 gpu; +1m; silent n1")
    assert came_of(story, facts.NodeUnreachable) == ["n1 has not reported since."]
    story.reachable("n1", after=SECOND)
    assert came_of(story, facts.NodeUnreachable) == ["At 01-01 00:01:01, 1s later: Node reachable: n1, heartbeats resumed."]
    story.silent("n1", after=MINUTE)
    story.lost("n1", after=MINUTE)
    assert came_of(story, facts.NodeUnreachable, 1)[0].endswith("lease expired, its tasks are lost.")


def test_a_policy_says_until_when_it_was_in_force(asked: Story) -> None:
    assert came_of(asked, facts.PolicyApplied) == ["It is still in force."]
    asked.apply_policy(asked.state.rules)
    assert came_of(asked, facts.PolicyApplied)[0].startswith("At 01-01 00:01:00, 1m later: Policy in force: ")


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


def test_a_cancellation_in_the_grace_says_what_came_of_it(asked: Story) -> None:
    asked.propose()
    asked.begin("low")
    asked.staged("low", "term_sent")
    asked.cancel("high")
    assert "already told to stop; it resumes later" in came_of(asked, decisions.PreemptionDecided)[0]
    asked.cancel_eviction_refused("low")
    asked.yields("low")
    texts = came_of(asked, decisions.PreemptionDecided)
    assert [text.split(": ")[1] for text in texts[:3]] == ["Eviction cancellation", "Cancel refused", "Job requeued"]


def test_a_cancellation_that_its_node_confirms_is_the_outcome(asked: Story) -> None:
    asked.propose()
    asked.begin("low")
    asked.cancel("high")
    asked.eviction_cancelled("low")
    asked.ends("low", after=MINUTE)
    texts = came_of(asked, decisions.PreemptionDecided)
    assert [text.split(": ")[1] for text in texts] == ["Eviction cancellation", "Eviction cancelled", "Reservation dropped"]
