"""A turn being written, and whom to blame where it cannot be."""

import pytest
from tests.log_builder import SECOND, folded

from bailiff_admission.draft import Draft
from bailiff_admission.suspects import Suspects, place
from bailiff_bus.log import chained
from bailiff_bus.port import Message
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.records.facts import ClockAdvanced, InputsAdvanced, JobCancelled
from bailiff_core.verbs.failure import DecisionError


def test_a_turn_continues_the_log(story):
    now = story.pool.now + SECOND
    draft = Draft(story.pool, now)
    draft.add(
        story.submitted("a", gpus=1), cause="bailiff.requests/0/9", inputs=(("bailiff.requests/0", 10),), actor="al", auth="acl"
    )
    draft.add(ClockAdvanced())
    records = draft.finish()
    assert [type(record.data).__name__ for record in records] == ["JobSubmitted", "ClockAdvanced", "JobPlaced"]
    assert [record.turn_end for record in records] == [False, False, True]
    assert {(record.time, record.epoch, record.turn) for record in records} == {(now, 1, story.pool.turn)}
    assert (records[0].actor, records[0].auth, records[0].cause) == ("al", "acl", "bailiff.requests/0/9")
    assert records[2].cause == str(records[1].seq)
    wires = [wire for _, wire, _ in chained(story.head, records)]
    assert state_digest(folded([*story.wires, *wires])) == state_digest(story.pool)


def test_a_turn_without_decisions_ends_with_its_fact(story):
    draft = Draft(story.pool, story.pool.now)
    draft.add(InputsAdvanced(), inputs=(("bailiff.requests/0", 99),))
    (record,) = draft.finish()
    assert record.turn_end
    assert story.pool.inputs["bailiff.requests/0"] == 99
    assert not story.pool.turn_open


def test_time_does_not_go_back(story):
    draft = Draft(story.pool, 5)
    draft.add(ClockAdvanced())
    assert draft.finish()[0].time == story.pool.now > 5


def test_the_first_turn_of_a_writer_is_the_one_that_it_opened(story):
    story.pool.turn_open = True
    draft = Draft(story.pool, story.pool.now)
    turn = story.pool.turn
    draft.add(ClockAdvanced())
    assert draft.finish()[0].turn == turn
    again = Draft(story.pool, story.pool.now)
    again.add(ClockAdvanced())
    assert again.finish()[0].turn == turn + 1


def message(offset):
    return Message("bailiff.requests", 0, offset, 0, None, (), b"")


def test_of_many_messages_each_is_suspect():
    suspects = Suspects()
    suspects.failed([message(1), message(2)], ValueError("no"))
    assert suspects.careful == {place(message(1)), place(message(2))}
    assert suspects.guilty == suspects.jobs == {}


def test_one_message_alone_is_guilty_once():
    suspects = Suspects()
    suspects.failed([message(1)], ValueError("no"))
    assert suspects.guilty == {("bailiff.requests", 0, 1): "ValueError: no"}
    with pytest.raises(ValueError, match="no"):
        suspects.failed([message(1)], ValueError("no"))


def test_without_a_message_the_job_is_held_once():
    suspects = Suspects()
    error = DecisionError("odd", KeyError("x"))
    suspects.failed([], error)
    assert list(suspects.jobs) == ["odd"]
    with pytest.raises(DecisionError):
        suspects.failed([], error)


def test_a_guilty_message_that_was_rejected_leaves_the_job():
    suspects = Suspects()
    error = DecisionError("odd", KeyError("x"))
    suspects.failed([message(1)], error)
    suspects.failed([message(1)], error)
    assert list(suspects.jobs) == ["odd"]


def test_nobody_to_blame():
    with pytest.raises(ZeroDivisionError):
        Suspects().failed([], ZeroDivisionError())


def test_a_job_that_was_there_before_is_held_and_the_message_is_not_to_blame():
    suspects = Suspects()
    error = DecisionError("odd", KeyError("x"))
    suspects.failed([message(1)], error, "odd")
    suspects.failed([message(1), message(2)], DecisionError("other", KeyError("x")), "other")
    assert list(suspects.jobs) == ["odd", "other"]
    assert not suspects.guilty
    assert not suspects.careful
    suspects.failed([message(1)], error, "odd")
    assert list(suspects.guilty) == [place(message(1))]


def test_who_was_there_before_the_turn_and_who_is_asked_about(story):
    story.submit("old", gpus=1)
    draft = Draft(story.pool, story.pool.now)
    draft.add(story.submitted("new", gpus=1))
    draft.add(JobCancelled(request=story.request(), job="old"))
    assert [draft.knew(job) for job in ("old", "new", "nobody")] == [True, False, False]
    assert [draft.asks_about(job) for job in ("old", "new")] == [True, False]
    story.pool.jobs["old"].held_because = "it fails"
    assert not draft.knew("old")
