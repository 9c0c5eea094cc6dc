"""The state as data: whole, equal for equal histories, and no matter what was cached when."""

import pytest
from tests.log_builder import MINUTE, Cut

from bailiff_core.decision_cycle import decide, decision_record
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.fold import apply, close_cycle, fold
from bailiff_core.fold.registry import FOLDS
from bailiff_core.fold.snapshot import from_snapshot, state_digest, to_snapshot
from bailiff_core.model.state import PoolState
from bailiff_core.records import AUDIT_TYPES, decode


def busy(story):
    """A pool with something in every corner of its state."""
    story.node("n1", gpus=8, labels={"zone": "b", "rack": "a"})
    story.node("n2", gpus=8, sick=[7])
    story.runs("low", gpus=8, labels={"team": "x"})
    story.runs("done", gpus=1)
    story.ends("done", 0, after=MINUTE)
    story.submit("high", gpus=8, cls="interactive")
    story.propose()
    story.begin("low")
    story.submit("asks", gpus=8, cls="inference", tasks=2)
    story.submit("waits", gpus=8)
    assert story.state.selection is not None
    assert story.state.preemptions


def test_a_state_goes_through_its_snapshot(story):
    busy(story)
    again = from_snapshot(to_snapshot(story.state))
    assert to_snapshot(again) == to_snapshot(story.state)
    assert again.jobs == story.state.jobs
    assert again.nodes == story.state.nodes
    assert again.selection == story.state.selection


def test_a_restored_state_folds_on_as_the_whole_log_does(story):
    busy(story)
    middle, pool = story.state.seq, from_snapshot(to_snapshot(story.state))
    story.propose()
    story.yields("low")
    story.restart()
    for wire in story.wires[middle + 1 :]:
        apply(pool, decode(wire))
    assert state_digest(pool) == state_digest(story.state)


def test_a_writer_that_starts_from_a_snapshot_decides_the_same(story):
    busy(story)
    snapshot = to_snapshot(story.state)
    middle = story.state.seq
    story.restart()
    story.propose()
    records = [decode(wire) for wire in story.wires[middle + 1 :]]
    state = from_snapshot(snapshot)
    for record in (record for record in records if record.data.KIND == "fact"):
        fold(state, record)
        if record.cycle_end or story.records[record.seq + 1].data.KIND == "decision":
            for decision in decide(state):
                found = decision_record(state, decision, records[0].prev, False)
                assert found.data == story.records[found.seq].data
            close_cycle(state)
    assert state_digest(state) == state_digest(story.state)


def test_the_digest_does_not_know_what_is_cached(story):
    busy(story)
    before = state_digest(story.state)
    story.state.indices.retry_unschedulable = True
    story.state.indices.unschedulable["x"] = "why"
    story.state.indices.touched["low"] = None
    assert state_digest(story.state) == before
    story.state.indices.unschedulable.clear()
    story.state.indices.touched.clear()


def test_the_digest_knows_everything_else(story):
    busy(story)
    before = state_digest(story.state)
    story.job("low").evictions += 1
    assert state_digest(story.state) != before
    story.job("low").evictions -= 1
    story.state.active = dict(reversed(story.state.active.items()))
    assert state_digest(story.state) != before  # orders decide ties
    story.state.active = dict(reversed(story.state.active.items()))
    assert state_digest(story.state) == before


def test_an_open_cycle_has_no_snapshot(story):
    with pytest.raises(Cut):
        story.node("n1") or story.cycle(story.submitted("job", gpus=1), cut=1)
    with pytest.raises(ValueError, match="is open"):
        to_snapshot(story.state)
    story.restart()


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b'{"seq":"x"}', b'{"jobs":{"a":{}}}'])
def test_what_is_no_snapshot_is_refused(data):
    with pytest.raises(ValueError, match=r"Pool|JSON|validation"):
        from_snapshot(data)


def test_every_record_type_has_its_fold():
    assert {kind for kind in AUDIT_TYPES.values() if kind.KIND in ("fact", "decision")} - set(FOLDS) <= _bases()
    assert STATE_SCHEMA == 11


def _bases():
    from bailiff_core.records.facts import TaskFact

    return {TaskFact}


def test_the_list_of_changes_is_bounded_without_a_reader(story, monkeypatch):
    """A service that only follows the log does not gather the names of all jobs that ever were."""
    monkeypatch.setitem(close_cycle.__globals__, "STALE_KEPT", 5)
    story.node("n1", gpus=8)
    reader, most = PoolState(), [0, 0, 0]
    for number in range(30):
        story.runs(f"job-{number}", gpus=1)
        story.ends(f"job-{number}", 0, after=MINUTE)
    for record in story.records:
        apply(reader, record)
        if record.cycle_end:
            lists = (reader.indices.changed_jobs, reader.indices.changed_times, reader.indices.changed_ends)
            most = [max(before, len(now)) for before, now in zip(most, lists, strict=True)]
    assert most == [5, 5, 5]
    assert to_snapshot(reader) == to_snapshot(story.state)
