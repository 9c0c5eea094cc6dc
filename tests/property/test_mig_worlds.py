"""Random histories of pools with MIG devices and NVLink islands: the invariants hold, and every way of deciding agrees.

Cards are partitioned anew under way. The same histories with and without the preference for islands start the same jobs.
"""

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from tests.kits import log_builder
from tests.kits.core_invariants import check_pool
from tests.kits.log_builder import Story
from tests.property.incremental import afresh, as_data
from tests.property.mig_worlds import Partitioned
from tests.property.random_stories import Step, steps

from bailiff_core.decision_cycle import decide
from bailiff_core.model.mig import profile_of
from bailiff_core.model.placement_ranges import numbers
from bailiff_core.model.state import PoolState
from bailiff_core.placement.islands import islands_used
from bailiff_core.placement.result import TaskPlacement
from bailiff_core.quota.usage import Usage
from bailiff_core.records.decisions import JobPending, JobPlaced
from bailiff_core.records.payload import Decision

QUICK = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
LONG = settings(QUICK, max_examples=200)


def holds(story: Story) -> None:
    """Every invariant; devices of the right kind; usage counted anew is the same; the islands on record are those used."""
    check_pool(story.state)
    for job in story.state.active_jobs():
        for task in job.tasks:
            if task.state != "released":
                for device in story.state.nodes[task.node].devices:
                    if task.devices >> device.number & 1:
                        assert profile_of(device) == (job.group(task.index).mig_profile or "") or device.gone
    kept = getattr(story.state.indices.snapshot, "usage", None)
    if kept is not None and not story.state.indices.changed_jobs and not story.state.indices.changed_nodes:
        anew = Usage.of(story.state)
        assert kept.total == anew.total
        assert {name: kept.allocated(name) for name in anew.all_allocated()} == anew.all_allocated()
    for decision in story.last_decisions:
        job = story.state.jobs.get(getattr(decision, "job", ""))
        if isinstance(decision, JobPlaced) and decision.island and job is not None and job.attempt == decision.attempt:
            members = [job.task(index) for share in decision.placement for index in numbers(share.tasks)]
            placed = [TaskPlacement(task.index, task.node, task.devices) for task in members if task is not None]
            if len(placed) == len(members):
                assert islands_used(story.state, job, placed) == decision.island


def in_both_ways(state: PoolState) -> Iterator[Decision]:
    """`decide`, compared with a cycle that tries every pending job. Where several jobs do not fit, their order may differ."""
    expected = [*decide(afresh(state))]
    found = []
    for decision in decide(state):
        found.append(decision)
        yield decision
    for of_pending in (False, True):
        ways = [as_data(each for each in way if isinstance(each, JobPending) == of_pending) for way in (found, expected)]
        assert sorted(map(repr, ways[0])) == sorted(map(repr, ways[1])) if of_pending else ways[0] == ways[1]


@given(steps(20))
@QUICK
def test_invariants_hold_and_a_full_cycle_decides_the_same(cycles: list[list[Step]]) -> None:
    with patch.object(log_builder, "decide", in_both_ways):
        Partitioned(holds, shared=True).play(cycles)


@given(steps(30))
@QUICK
def test_the_log_replays_and_folds_to_the_same_state(cycles: list[list[Step]]) -> None:
    Partitioned(holds).play(cycles).holds()


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shared", [False, True])
@given(steps(60))
@LONG
def test_long_histories_hold(shared: bool, cycles: list[list[Step]]) -> None:
    with patch.object(log_builder, "decide", in_both_ways):
        Partitioned(holds, shared=shared).play(cycles).holds()
