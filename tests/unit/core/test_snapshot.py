"""The state as data: whole, equal for equal histories, and no matter what was cached when."""

import gc
from collections import Counter
from itertools import pairwise

import pytest
from pydantic import TypeAdapter
from tests.kits.log_builder import MINUTE, Cut
from tests.kits.story_script import play

from bailiff_core.decision_cycle import decide, decision_record
from bailiff_core.fold import apply, close_cycle, fold
from bailiff_core.fold.failed_starts import set_victims
from bailiff_core.fold.log import hold_job
from bailiff_core.fold.registry import FOLDS
from bailiff_core.fold.snapshot import SnapshotIndex, from_snapshot, snapshot_parts, state_digest, to_snapshot
from bailiff_core.model.demand import Dependency, JobDemand, TaskGroup
from bailiff_core.model.state import NOTHING, Eviction, Job, OperatorRequest, PoolState, SeenRequest, Task
from bailiff_core.model.undecoded import shared_of, without_gaps
from bailiff_core.quota.usage import NO_TASKS, Usage
from bailiff_core.records import AUDIT_TYPES, decode


def busy(story):
    """A pool with something in every corner of its state."""
    play(
        "node n1: 8 gpus, zone=b, rack=a; node n2: 8 gpus, sick 7; runs low: 8 gpus, team=x; runs done: 1 gpu; +1m; ends done 0",
        "submit high: interactive, 8 gpus; propose; begin low; submit asks: inference, 2 x 8 gpus; submit waits: 8 gpus",
        story=story,
    )
    assert story.state.selection is not None
    assert story.state.preemptions


def test_a_state_goes_through_its_snapshot(story):
    busy(story)
    again = from_snapshot(to_snapshot(story.state))
    assert to_snapshot(again) == to_snapshot(story.state)
    assert again.jobs == story.state.jobs
    assert again.nodes == story.state.nodes
    assert again.selection == story.state.selection


def test_a_snapshot_is_made_in_parts_of_a_few_jobs(story, monkeypatch):
    """A pool of many jobs needs no more memory than one of few."""
    busy(story)
    monkeypatch.setitem(to_snapshot.__globals__, "AT_ONCE", 2)
    before = [len(part) for part in snapshot_parts(story.state)]
    for number in range(20):
        story.submit(f"more-{number}", gpus=1)
    story.state.requests['4:"é\u2028\x01\\'] = SeenRequest("", 1, 2)
    after = [len(part) for part in snapshot_parts(story.state)]
    assert len(after) == len(before) + 20, "jobs and request ids, two at a time"
    assert b"".join(snapshot_parts(story.state)) == TypeAdapter(PoolState).dump_json(story.state, exclude={"indices"})
    assert max(after[1:]) <= max(before[1:]) + 500, "except for the names in the queue"
    story.state.requests.popitem()


OF_EACH_JOB = {Job: 1, JobDemand: 1, dict: 1, list: 3}
"""The objects that hold others: its demand has a dict of fields; there are tasks, reserved tasks and times of evictions."""


def own_objects(jobs):
    """How many objects that hold others each but the first has, and the one before has not."""
    for before, job in pairwise(map(held_by, jobs)):
        yield dict(Counter(type(each) for at, each in job.items() if at not in before))


def held_by(job):
    found, todo = {}, [job]
    while todo:
        each = todo.pop()
        if id(each) not in found and not isinstance(each, type) and (gc.is_tracked(each) or isinstance(each, dict | set | list)):
            found[id(each)] = each
            todo += gc.get_referents(each)
    return found


def test_jobs_share_what_they_have_alike(story):
    """A pool may have a hundred thousand that are pending: an object more of each is megabytes in every service."""
    play("node n1: 8 gpus; runs low: 8 gpus", story=story)
    names = [f"waits-{number}" for number in range(4)]
    for name in names:
        story.submit(name, gpus=8)
    index = SnapshotIndex()
    data = b"".join(snapshot_parts(story.state, index))
    for state in (story.state, from_snapshot(data), from_snapshot(data, index)):
        assert list(own_objects([state.jobs[name] for name in names])) == [OF_EACH_JOB] * 3


def test_jobs_of_which_no_task_is_releasing_share_that_set(story):
    play("node n1: 8 gpus; runs low: 8 gpus; submit first: 8 gpus; submit second: 8 gpus", story=story)
    assert {id(each.uncounted) for each in Usage.of(story.state)._usage_by_job.values()} == {id(NO_TASKS)}


def test_what_jobs_share_stays_empty(story):
    play("node n1: 8 gpus; runs low: 8 gpus; submit first: 8 gpus", story=story)
    story.cycle(story.submitted("second", gpus=8, after=(Dependency(job="first"),)))
    first, second = story.job("first"), story.job("second")
    assert second.waits_for == {"first": "succeeded"}
    hold_job(story.state, first, "for now")
    set_victims(story.state, first, {**first.victims, "low": story.state.now})
    assert first.holds
    assert first.victims == {"low": story.state.now}
    assert story.job("low").holds == story.job("low").victims == story.job("low").waits_for == NOTHING == {}
    first.holds = first.victims = NOTHING
    first.paused_seq, first.pause_reason = None, ""


def test_the_jobs_of_a_snapshot_are_decoded_one_by_one(story):
    busy(story)
    index = SnapshotIndex()
    data = b"".join(snapshot_parts(story.state, index)) + b"more"
    index = SnapshotIndex.from_data(index.to_data())
    state = from_snapshot(data, index)
    assert list(state.jobs) == list(story.state.jobs)
    assert state_digest(state) == state_digest(story.state)
    assert state.jobs.decoded == state.requests.decoded == 0
    assert state.jobs["low"] == state.jobs.get("low") == story.state.jobs["low"]
    assert state.jobs.decoded == 1
    assert state.jobs.pop("asks") == story.state.jobs["asks"]
    assert state.jobs.get("asks", 0) == state.jobs.pop("asks", 0) == 0
    assert from_snapshot(data, index) == from_snapshot(to_snapshot(story.state))


def test_a_copy_without_gaps_decodes_nothing(story):
    busy(story)
    index = SnapshotIndex()
    data = b"".join(snapshot_parts(story.state, index))
    state = from_snapshot(data, index)
    asked = state.jobs["low"]
    del state.jobs["asks"]
    copy = without_gaps(state.jobs)
    assert list(copy) == [name for name in story.state.jobs if name != "asks"]
    assert copy["low"] is asked
    assert copy.decoded == 1
    assert copy == state.jobs


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tasks", [Task(0, 0, 1, "reserved")]),
        ("reservation", [Task(0, 0, 1, "reserved")]),
        ("eviction", Eviction(1, "preemption", 0)),
        ("operator_request", OperatorRequest(1, "evict")),
        ("cancelled", True),
        ("suspended_reason", "why"),
        ("paused_seq", 0),
        ("phase", "paused"),
    ],
)
def test_a_job_with_anything_of_its_own_stands_for_no_other(field, value):
    job = Job("a", 1, 1, JobDemand(job="a", tasks=(TaskGroup(),)), "train", 50, True, True, "")
    assert shared_of({"a": job}, "a").waits
    setattr(job, field, value)
    assert not shared_of({"a": job}, "a").waits


def test_a_state_of_undecoded_jobs_folds_on_as_the_whole_log_does(story):
    busy(story)
    index = SnapshotIndex()
    middle, data = story.state.seq, b"".join(snapshot_parts(story.state, index))
    state = from_snapshot(data, index)
    play("propose; yields low; restart", story=story)
    for wire in story.wires[middle + 1 :]:
        apply(state, decode(wire))
    assert 0 < state.jobs.decoded < len(state.jobs)
    assert state_digest(state) == state_digest(story.state)


def test_a_restored_state_folds_on_as_the_whole_log_does(story):
    busy(story)
    middle, pool = story.state.seq, from_snapshot(to_snapshot(story.state))
    play("propose; yields low; restart", story=story)
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
    for index in (None, SnapshotIndex(size=len(data))):
        with pytest.raises(ValueError, match=r"JSON|validation|object|EOF"):
            from_snapshot(data, index)


def test_every_record_type_has_its_fold():
    assert {kind for kind in AUDIT_TYPES.values() if kind.KIND in ("fact", "decision")} - set(FOLDS) <= _bases()


def _bases():
    from bailiff_core.records.facts import TaskFact

    return {TaskFact}


@pytest.mark.slow
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
