"""The log itself as the fold keeps it: records of an unknown type, accepted truncations, and what is kept only so long."""

from typing import Any

import pytest
from tests.builders import Sketch, group
from tests.log_builder import digest

from bailiff_core.fold import apply, close_cycle
from bailiff_core.fold.allocation import set_phase
from bailiff_core.fold.apply import FORGOTTEN_KEPT, STALE_KEPT, forget
from bailiff_core.fold.pending_queue import dequeue
from bailiff_core.fold.registry import FOLDS
from bailiff_core.model.demand import TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Topology
from bailiff_core.model.state import Eviction, PoolState, SeenRequest
from bailiff_core.placement.feasibility import could_ever_fit
from bailiff_core.records import Record, facts

ROOT = "1" * 42 + "A"
REQUEST = facts.RequestId(source="laptop", id="r-1", digest=digest("r-1"))


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    made.node("a", gpus=4)
    return made


def fold(state: PoolState, fact: Any) -> None:
    FOLDS[type(fact)](state, fact)


def test_a_record_of_an_unknown_type_that_is_not_essential_only_moves_the_log(sketch: Sketch) -> None:
    state = sketch.state
    state.last_fact = state.seq
    record = Record(
        pool="test", seq=state.seq + 1, epoch=2, cycle=7, cycle_end=True, time=state.now + 1, prev="0" * 64, writer="w",
        engine="9.9.9/99", policy=0, type="bailiff.NotYetInvented.v1", data=None, inputs=(("bailiff.requests/0", 8),),
    )  # fmt: skip
    apply(state, record)
    assert (state.seq, state.now, state.epoch, state.cycle) == (record.seq, record.time, 2, 7)
    assert (state.inputs, state.last_fact, state.cycle_open) == ({"bailiff.requests/0": 8}, record.seq - 1, False)


def test_a_pool_is_signed_if_it_was_created_with_a_root_key() -> None:
    state = PoolState()
    fold(state, facts.PoolCreated(pool="p", partition=3, nonce="n", root_key=ROOT))
    assert (state.pool, state.partition, state.root_key) == ("p", 3, ROOT)
    fold(state, facts.PoolCreated(pool="p", partition=3, nonce="n"))
    assert state.root_key == ""


def test_a_writer_without_a_certificate_signs_with_no_key() -> None:
    state = PoolState(root_key=ROOT, writer_key="before", writer_until="2027-01-01T00:00:00Z")
    fold(state, facts.WriterStarted(writer="w", release="0", digest="0", logic=1, state_schema=1))
    assert (state.writer_key, state.writer_until) == ("before", "2027-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("epoch", "seq", "holds"), [(2, 5, False), (2, 4, False), (1, 9, False), (2, 6, True), (3, 0, True)], ids=str
)
def test_only_the_loss_of_more_records_than_were_accepted_before_stops_starts(epoch: int, seq: int, holds: bool) -> None:
    state = PoolState()
    fold(state, facts.LogTruncated(request=REQUEST, epoch=2, seq=5))
    assert state.truncation_unreconciled
    fold(state, facts.TruncationReconciled())
    assert not state.truncation_unreconciled
    fold(state, facts.LogTruncated(request=REQUEST, epoch=epoch, seq=seq))
    assert (state.truncation_unreconciled, state.accepted_truncation) == (holds, (epoch, seq) if holds else (2, 5))


def test_a_job_whose_class_a_new_policy_lacks_keeps_its_priority(sketch: Sketch) -> None:
    kept, other = sketch.job("kept"), sketch.job("other")
    kept.class_name, kept.priority = "dropped", 33
    policy = DEFAULT_POLICY.model_copy(
        update={
            "priority_classes": tuple(
                entry.model_copy(update={"value": 60}) if entry.name == "train" else entry
                for entry in DEFAULT_POLICY.priority_classes
            )
        }
    )
    fold(sketch.state, facts.PolicyApplied(policy=policy))
    assert (kept.priority, other.priority) == (33, 60)


def test_a_job_for_which_a_policy_lacked_a_topology_may_fit_under_the_next(sketch: Sketch) -> None:
    sketch.state.nodes[0].labels["rack"] = "r"
    demand = sketch.job("job").demand.model_copy(update={"topology": TopologyRule(topology="dc", required="rack")})
    assert could_ever_fit(sketch.state, demand) is not None
    topologies = (Topology(name="dc", levels=("rack",)),)
    fold(sketch.state, facts.PolicyApplied(policy=DEFAULT_POLICY.model_copy(update={"topologies": topologies})))
    assert could_ever_fit(sketch.state, demand) is None


# --- the queue


def test_jobs_whose_classes_change_places_under_a_new_policy_change_places_in_the_queue(sketch: Sketch) -> None:
    jobs = [sketch.job(name, priority=value) for name, value in (("first", 75), ("second", 50), ("third", 50))]
    jobs[0].class_name = "interactive"
    values = {"interactive": 40}
    classes = tuple(
        entry.model_copy(update={"value": values.get(entry.name, entry.value)}) for entry in DEFAULT_POLICY.priority_classes
    )
    fold(sketch.state, facts.PolicyApplied(policy=DEFAULT_POLICY.model_copy(update={"priority_classes": classes})))
    assert [(name, sketch.state.jobs[name].priority) for name in sketch.state.queue] == [
        ("second", 50), ("third", 50), ("first", 40),
    ]  # fmt: skip


@pytest.mark.parametrize("queued", [(), ("earlier",), ("later",), ("earlier", "later")])
def test_a_job_that_is_not_queued_cannot_leave_the_queue(sketch: Sketch, queued: tuple[str, ...]) -> None:
    jobs = {name: sketch.job(name, priority=priority) for name, priority in (("earlier", 60), ("job", 50), ("later", 40))}
    for name in jobs.keys() - set(queued):
        dequeue(sketch.state, jobs[name])
    with pytest.raises(ValueError, match="job job does not wait in the queue"):
        dequeue(sketch.state, jobs["job"])
    assert sketch.state.queue == list(queued)


def test_nothing_is_noted_any_more_of_a_job_that_has_left_the_queue(sketch: Sketch) -> None:
    indices = sketch.state.indices
    jobs = [sketch.job(name) for name in ("leaves", "stays")]
    noted = (indices.to_schedule, indices.backfill_blocked, indices.withheld)
    for index in noted:
        index.update(dict.fromkeys(job.id for job in jobs))
    dequeue(sketch.state, jobs[0])
    assert [list(index) for index in noted] == [["stays"]] * 3
    assert (sketch.state.queue, list(indices.queued)) == (["stays"], ["stays"])


# --- limits of the run time


def test_a_gang_that_never_ran_whole_has_no_end_by_its_run_time_limit(sketch: Sketch) -> None:
    """Its eviction is cancelled when the task that had not started is gone: it runs, but not since a known moment."""
    state = sketch.state
    job = sketch.at(sketch.job("job", group(2, gpus=1)), ("a", [0]), ("a", [1]))
    job.demand = job.demand.model_copy(update={"run_time_limit": 60})
    job.phase, job.last_start, job.eviction = "evicting", None, None
    set_phase(state, job, "running")
    assert state.run_time_limits == []
    job.eviction = Eviction(1, "drain", 5)
    set_phase(state, job, "evicting")
    job.last_start = 1000
    set_phase(state, job, "running")
    assert state.run_time_limits == [(1060, "job")]
    set_phase(state, job, "evicting")
    assert state.run_time_limits == []


# --- what is kept only so long


@pytest.mark.parametrize(
    ("changed", "blocked", "rebuilt"),
    [(STALE_KEPT, False, False), (STALE_KEPT + 1, False, True), (STALE_KEPT + 1, True, False), (0, False, False)],
)
def test_a_snapshot_that_is_far_behind_is_made_anew_unless_jobs_wait_for_its_positions(
    sketch: Sketch, changed: int, blocked: bool, rebuilt: bool
) -> None:
    indices = sketch.state.indices
    indices.snapshot = "made before"
    indices.changed_jobs = {str(number): None for number in range(changed)}
    indices.changed_nodes = {0: None}
    indices.backfill_blocked = {"job": None} if blocked else {}
    close_cycle(sketch.state)
    assert (indices.snapshot, len(indices.changed_jobs), len(indices.changed_nodes)) == (
        (None, 0, 0) if rebuilt else ("made before", changed, 1)
    )


@pytest.mark.parametrize(
    ("changed", "index"), [("changed_times", "timers"), ("changed_ends", "completion_order")], ids=["timers", "ends"]
)
@pytest.mark.parametrize(("behind", "rebuilt"), [(STALE_KEPT, False), (STALE_KEPT + 1, True)], ids=["near", "far"])
def test_an_order_that_is_far_behind_is_made_anew(sketch: Sketch, changed: str, index: str, behind: int, rebuilt: bool) -> None:
    indices = sketch.state.indices
    setattr(indices, index, "made before")
    setattr(indices, changed, {str(number): None for number in range(behind)})
    close_cycle(sketch.state)
    assert (getattr(indices, index), len(getattr(indices, changed))) == ((None, 0) if rebuilt else ("made before", behind))


@pytest.mark.parametrize(("forgotten", "left"), [(FORGOTTEN_KEPT, FORGOTTEN_KEPT), (FORGOTTEN_KEPT + 1, 0)])
def test_the_gaps_of_forgotten_entries_are_closed_once_there_are_many(sketch: Sketch, forgotten: int, left: int) -> None:
    state = sketch.state
    sketch.job("done")
    state.ended = {"done": state.now}
    state.indices.forgotten = forgotten
    forget(state)
    assert state.indices.forgotten == left
    assert state.ended == {"done": state.now}


def test_forgotten_entries_are_counted(sketch: Sketch) -> None:
    state = sketch.state
    sketch.job("done")
    state.ended, state.requests = {"done": 0}, {name: SeenRequest("digest", 0, 1) for name in ("first", "second")}
    state.now = 10**18
    forget(state)
    assert (state.ended, state.requests, state.indices.forgotten) == ({}, {}, 3)


def test_a_log_without_a_policy_yet_forgets_nothing() -> None:
    state = PoolState(ended={"done": 0}, now=10**18)
    forget(state)
    assert list(state.ended) == ["done"]
