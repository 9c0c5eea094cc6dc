"""The index of the records about jobs, as it is stored with a snapshot."""

import pytest
from tests.kits.log_builder import Story
from tests.kits.story_script import play

from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_core.records import decode
from bailiff_core.records.decisions import PreemptionRequested
from bailiff_log.job_index import JobIndex
from bailiff_log.reader import Entry


def indexed(story: Story) -> tuple[JobIndex, PoolState]:
    index, state = JobIndex(), PoolState()
    for offset, wire in enumerate(story.wires):
        record = decode(wire)
        apply(state, record)
        index.take(Entry(record, wire, offset, record.time, f"{offset:064x}"), state)
    return index, state


def test_a_stored_index_goes_on_where_it_was() -> None:
    story = play("node n1: 8 gpus; runs one: 1 gpu; runs two: 1 gpu")
    index, state = indexed(story)
    restored = JobIndex()
    stored = index.to_bytes(state)
    restored.restore_later(lambda: stored)
    begin = len(story.wires)
    story.ends("one")
    for offset, wire in enumerate(story.wires[begin:], begin):
        record = decode(wire)
        apply(state, record)
        for each in (index, restored):
            each.take(Entry(record, wire, offset, record.time, f"{offset:064x}"), state)
    assert restored.of("one", state) == index.of("one", state)
    assert restored.of("two", state) == index.of("two", state)
    assert restored.of("three", state) is None
    assert restored.to_bytes(state) == index.to_bytes(state)


@pytest.mark.parametrize("damaged", ["cut", "longer", "no line"])
def test_a_damaged_index_is_not_used(damaged: str) -> None:
    story = play("node n1: 8 gpus; runs one: 1 gpu")
    index, state = indexed(story)
    stored = index.to_bytes(state)
    bad = {"cut": stored[:-8], "longer": stored + bytes(8), "no line": stored.replace(b"\n", b"")}[damaged]
    restored = JobIndex()
    restored.restore_later(lambda: bad)
    with pytest.raises(ValueError):
        restored.load(state)


def test_jobs_of_a_decision_whose_request_an_index_has_not_seen_are_looked_for_in_the_log() -> None:
    """It was before the snapshot at which the index begins: what the index has of these jobs is not all."""
    story = play("node n1: 8 gpus; runs low: 8 gpus; submit other: 8 gpus; submit high: interactive, 8 gpus; propose")
    whole, state = indexed(story)
    assert [whole.of(job, state) is not None for job in ("low", "high", "other")] == [True, True, True]
    late = JobIndex()
    for offset, wire in enumerate(story.wires):
        record = decode(wire)
        if not isinstance(record.data, PreemptionRequested):
            late.take(Entry(record, wire, offset, record.time, f"{offset:064x}"), state)
    assert [late.of(job, state) is not None for job in ("low", "high", "other")] == [False, False, True]
