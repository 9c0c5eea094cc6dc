"""Writers that die inside a cycle, jobs on which deciding fails, and logs of other engines."""

from dataclasses import replace

import pytest
from tests.kits.log_builder import Cut, folded, replayed

from bailiff_core.actions import allocate
from bailiff_core.actions.failure import DecisionError
from bailiff_core.engine import LOGIC, STATE_SCHEMA
from bailiff_core.fold import apply
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.records import facts
from bailiff_core.records.wire import decode, encode


def full_cycle(story, cut=None):
    """One cycle that ends one job, places two others, and leaves a fourth pending."""
    story.node("n1", gpus=8)
    story.runs("done", gpus=8)
    for name in ("a", "b", "c"):
        story.submit(name, gpus=4)
    return story.cycle(*_ends(story, "done"), cut=cut)


def _ends(story, job):
    return [facts.TaskExited(**story.at(job, 0), exit_code=0), facts.TaskReleased(**story.at(job, 0))]


def test_a_complete_cycle(story):
    full_cycle(story)
    story.expect_only("JobEnded", "JobPlaced", "JobPlaced")
    assert [record.cycle_end for record in story.records[-5:]] == [False, False, False, False, True]
    assert {record.cause for record in story.records[-3:]} == {str(story.records[-4].seq)}


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_an_interrupted_cycle_is_closed_by_the_next_writer(story, cut):
    with pytest.raises(Cut):
        full_cycle(story, cut)
    assert story.state.cycle_open
    cycle = story.state.cycle
    story.restart()
    assert story.state.cycle == cycle + 1
    assert not story.state.cycle_open
    if cut > 1:
        assert story.phases() == {"done": "succeeded", "a": "starting", "b": "starting", "c": "pending"}
    else:
        assert story.phases()["a"] == "reserved"
        story.releases("done")
        assert story.phases() == {"done": "succeeded", "a": "starting", "b": "starting", "c": "pending"}


def test_epochs_rise_and_are_remembered(story):
    assert story.state.epoch == 1
    began = story.state.seq
    story.restart()
    assert (story.state.epoch, story.state.epoch_of(began), story.state.epoch_of(story.state.seq)) == (2, 1, 2)
    assert story.state.epoch_of(0) == 0


def test_replay_finds_a_decision_that_is_missing(story):
    full_cycle(story)
    wires = story.wires[:-1]
    last = decode(wires[-1])
    wires[-1] = encode(replace(last, cycle_end=True))
    replay = replayed(wires)
    assert replay.difference.expected.startswith("one more decision: bailiff.audit.JobPlaced")


def test_replay_finds_a_decision_that_was_not_due(story):
    full_cycle(story)
    wires = list(story.wires)
    wires[-1] = encode(replace(decode(wires[-1]), cycle_end=False))
    extra = replace(story.records[-1], seq=story.records[-1].seq + 1)
    assert replayed([*wires, encode(extra)]).difference.expected == "the end of the cycle"


def test_replay_finds_another_decision(story):
    full_cycle(story)
    at = len(story.wires) - 1
    record = decode(story.wires[at])
    other = replace(record, data=record.data.model_copy(update={"attempt": 7}))
    replay = replayed([*story.wires[:at], encode(other)])
    assert replay.difference.seq == record.seq
    assert '"attempt":1' in replay.difference.expected
    assert '"attempt":7' in replay.difference.found


def test_replay_finds_a_difference_in_the_headers(story):
    full_cycle(story)
    at = len(story.wires) - 1
    other = replace(decode(story.wires[at]), cause="5")
    assert replayed([*story.wires[:at], encode(other)]).difference.expected.startswith("headers")


def test_replay_finds_a_fact_amid_decisions(story):
    full_cycle(story)
    fact = replace(story.records[-1], type=facts.ClockAdvanced.type_name(), data=facts.ClockAdvanced())
    assert replayed([*story.wires[:-1], encode(fact)]).difference.expected == "the rest of the cycle's decisions"


def test_replay_checks_state_digests(story):
    story.node("n1")
    story.cycle(facts.StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(story.state)))
    assert replayed(story.wires).digests == 1
    wrong = replayed([*story.wires[:-1], encode(_with(story.records[-1], digest="0" * 64))])
    assert wrong.difference.expected == f"state digest {story.records[-1].data.digest}"


def _with(record, **fields):
    return replace(record, data=record.data.model_copy(update=fields))


def test_cycles_of_another_engine_are_folded_and_not_decided_again(story):
    story.restart(logic=LOGIC + 1)
    full_cycle(story)
    changed = list(story.wires)
    changed[-1] = encode(_with(story.records[-1], attempt=7))  # what another engine may well have decided
    replay = replayed(changed)
    assert replay.difference is None
    assert replay.skipped_cycles > 0
    story.restart()
    assert replayed(story.wires).skipped_cycles == replay.skipped_cycles


def test_a_job_that_cannot_be_decided_on_is_blocked(story, monkeypatch):
    story.node("n1", gpus=8)
    real = allocate.find_within_bounds

    def fails(snapshot, unit, budget):
        if unit.job.id == "odd":
            raise ZeroDivisionError("odd indeed")
        return real(snapshot, unit, budget)

    monkeypatch.setattr(allocate, "find_within_bounds", fails)
    check, story.check = story.check, None
    with pytest.raises(DecisionError, match="deciding about odd failed: ZeroDivisionError: odd indeed") as failure:
        story.cycle(story.submitted("odd", gpus=1), story.submitted("fine", gpus=2))
    assert failure.value.job == "odd"
    story.restart()  # nothing of that cycle was appended
    with pytest.raises(DecisionError):
        story.submit("odd", gpus=1)
    story.restart()
    monkeypatch.setattr(allocate, "find_within_bounds", real)
    story.node("n1", gpus=0, boot=2)
    story.submit("odd", gpus=1)
    monkeypatch.setattr(allocate, "find_within_bounds", fails)
    story.cycle(facts.DecisionFailed(job="odd", error="odd indeed"), story.joined("n1", gpus=8, boot=3))
    story.submit("fine", gpus=2)
    story.expect("JobPlaced", job="fine")
    assert story.job("odd").phase == "pending"
    story.check = check
    story.submit("more", gpus=1)
    story.cancel("odd")
    story.expect("JobEnded", job="odd", outcome="cancelled")
    monkeypatch.setattr(allocate, "find_within_bounds", real)


def test_an_accepted_truncation_is_kept_in_the_state(story):
    story.cycle(facts.LogTruncated(request=story.request(), epoch=4, seq=99))
    assert story.state.accepted_truncation == (4, 99)
    assert folded(story.wires).accepted_truncation == (4, 99)
    story.cycle(facts.LogTruncated(request=story.request(), epoch=3, seq=100))
    assert story.state.accepted_truncation == (4, 99), "a smaller loss, accepted late, takes nothing back"


def test_after_an_accepted_truncation_nothing_starts_until_it_is_reconciled(story):
    """Agents may run tasks that the log has lost: on resources that it has as free, and of jobs that it has as pending."""
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("high", gpus=8, cls="interactive")
    story.propose()
    story.begin("low")
    story.cycle(facts.LogTruncated(request=story.request(), epoch=4, seq=99))
    story.submit("more", gpus=1)
    story.exits("low", 85)
    story.releases("low")
    assert story.phases() == {"low": "pending", "high": "reserved", "more": "pending"}
    assert story.state.selection is None

    story.cycle(facts.TruncationReconciled())
    story.expect("JobStarting", job="high")
    assert folded(story.wires).truncation_unreconciled is False


def test_a_record_out_of_order_is_refused(story):
    story.node("n1")
    state = folded(story.wires)
    with pytest.raises(ValueError, match="does not follow"):
        apply(state, story.records[-1])
