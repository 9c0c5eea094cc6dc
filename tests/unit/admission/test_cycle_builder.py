"""Building a decision cycle, and finding the poison input where it fails."""

import pytest
from tests.kits.log_builder import SECOND, folded

from bailiff_admission.cycle_builder import CycleBuilder
from bailiff_admission.poison_inputs import PoisonInputs, place
from bailiff_bus.port import Message
from bailiff_core.actions.failure import DecisionError
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.records.facts import ClockAdvanced, InputsAdvanced, JobCancelled
from bailiff_log.writer import chain_records


def test_a_decision_cycle_continues_the_log(story):
    now = story.state.now + SECOND
    draft = CycleBuilder(story.state, now)
    draft.add(
        story.submitted("a", gpus=1), cause="bailiff.requests/0/9", inputs=(("bailiff.requests/0", 10),), actor="al", auth="acl"
    )
    draft.add(ClockAdvanced())
    records = draft.finish()
    assert [type(record.data).__name__ for record in records] == ["JobSubmitted", "ClockAdvanced", "JobPlaced"]
    assert [record.cycle_end for record in records] == [False, False, True]
    assert {(record.time, record.epoch, record.cycle) for record in records} == {(now, 1, story.state.cycle)}
    assert (records[0].actor, records[0].auth, records[0].cause) == ("al", "acl", "bailiff.requests/0/9")
    assert records[2].cause == str(records[1].seq)
    wires = [wire for _, wire, _ in chain_records(story.head, records)]
    assert state_digest(folded([*story.wires, *wires])) == state_digest(story.state)


def test_a_cycle_without_decisions_ends_with_its_fact(story):
    draft = CycleBuilder(story.state, story.state.now)
    draft.add(InputsAdvanced(), inputs=(("bailiff.requests/0", 99),))
    (record,) = draft.finish()
    assert record.cycle_end
    assert story.state.inputs["bailiff.requests/0"] == 99
    assert not story.state.cycle_open


def test_time_does_not_go_back(story):
    draft = CycleBuilder(story.state, 5)
    draft.add(ClockAdvanced())
    assert draft.finish()[0].time == story.state.now > 5


def test_the_first_cycle_of_a_writer_is_the_one_that_it_opened(story):
    story.state.cycle_open = True
    draft = CycleBuilder(story.state, story.state.now)
    cycle = story.state.cycle
    draft.add(ClockAdvanced())
    assert draft.finish()[0].cycle == cycle
    again = CycleBuilder(story.state, story.state.now)
    again.add(ClockAdvanced())
    assert again.finish()[0].cycle == cycle + 1


def message(offset):
    return Message("bailiff.requests", 0, offset, 0, None, (), b"")


def test_each_of_many_messages_may_be_the_poison_input():
    poison_inputs = PoisonInputs()
    poison_inputs.failed([message(1), message(2)], ValueError("no"))
    assert poison_inputs.suspected == {place(message(1)), place(message(2))}
    assert poison_inputs.errors == poison_inputs.jobs == {}


def test_a_single_message_is_the_poison_input_once():
    poison_inputs = PoisonInputs()
    poison_inputs.failed([message(1)], ValueError("no"))
    assert poison_inputs.errors == {("bailiff.requests", 0, 1): "ValueError: no"}
    with pytest.raises(ValueError, match="no"):
        poison_inputs.failed([message(1)], ValueError("no"))


def test_without_a_message_the_job_is_suspended_once():
    poison_inputs = PoisonInputs()
    error = DecisionError("odd", KeyError("x"))
    poison_inputs.failed([], error)
    assert list(poison_inputs.jobs) == ["odd"]
    with pytest.raises(DecisionError):
        poison_inputs.failed([], error)


def test_the_job_is_blamed_after_its_message_was_rejected():
    poison_inputs = PoisonInputs()
    error = DecisionError("odd", KeyError("x"))
    poison_inputs.failed([message(1)], error)
    poison_inputs.failed([message(1)], error)
    assert list(poison_inputs.jobs) == ["odd"]


def test_without_a_message_and_a_job_the_error_is_raised():
    with pytest.raises(ZeroDivisionError):
        PoisonInputs().failed([], ZeroDivisionError())


def test_a_job_from_before_the_cycle_is_suspended_and_the_message_is_not_to_blame():
    poison_inputs = PoisonInputs()
    error = DecisionError("odd", KeyError("x"))
    poison_inputs.failed([message(1)], error, "odd")
    poison_inputs.failed([message(1), message(2)], DecisionError("other", KeyError("x")), "other")
    assert list(poison_inputs.jobs) == ["odd", "other"]
    assert not poison_inputs.errors
    assert not poison_inputs.suspected
    poison_inputs.failed([message(1)], error, "odd")
    assert list(poison_inputs.errors) == [place(message(1))]


def test_jobs_from_before_the_cycle_and_jobs_that_the_message_names(story):
    story.submit("old", gpus=1)
    draft = CycleBuilder(story.state, story.state.now)
    draft.add(story.submitted("new", gpus=1))
    draft.add(JobCancelled(request=story.request(), job="old"))
    assert [draft.existed_before(job) for job in ("old", "new", "nobody")] == [True, False, False]
    assert [draft.has_request_for(job) for job in ("old", "new")] == [True, False]
    story.state.jobs["old"].suspended_reason = "it fails"
    assert not draft.existed_before("old")
