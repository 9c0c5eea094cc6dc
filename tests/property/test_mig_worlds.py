"""Random histories of pools with MIG devices and NVLink islands: the invariants hold, and every way of deciding agrees.

Cards are partitioned anew under way. The same histories with and without the preference for islands start the same jobs.
"""

from collections.abc import Iterable, Iterator
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from tests import log_builder
from tests.core_invariants import check_pool
from tests.log_builder import Story
from tests.mig_kit import devices
from tests.property.random_stories import CLASSES, Chance, Step, steps
from tests.property.test_incremental_cycle import afresh, as_data

from bailiff_core.decision_cycle import decide
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.mig import profile_of
from bailiff_core.model.placement_ranges import numbers
from bailiff_core.model.state import PoolState
from bailiff_core.placement.islands import islands_used
from bailiff_core.placement.result import TaskPlacement
from bailiff_core.quota.usage import Usage
from bailiff_core.records import facts
from bailiff_core.records.decisions import JobPending, JobPlaced
from bailiff_core.records.payload import Decision, Fact

QUICK = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
LONG = settings(QUICK, max_examples=200)
CARDS = (
    "4xH100-80GB/nvlink2,2xH100-80GB:3g.40gb,3xH100-80GB:1g.10gb",
    "2xH100-80GB/nvlink2,6xH100-80GB:3g.40gb",
    "8xH100-80GB/nvlink4",
)
SHAPES = (
    [TaskGroup(mig_profile="3g.40gb")],
    [TaskGroup(count=2, mig_profile="3g.40gb")],
    [TaskGroup(mig_profile="3g.40gb", gpu_devices=2)],
    [TaskGroup(count=3, mig_profile="1g.10gb")],
    [TaskGroup(mig_profile="3g.40gb"), TaskGroup(gpu_milli=1000)],
    [TaskGroup(gpu_milli=2000)],
    [TaskGroup(count=2, gpu_milli=2000)],
    [TaskGroup(gpu_milli=4000)],
    [TaskGroup(gpu_share_milli=500)],
    [TaskGroup(count=2, gpu_milli=1000), TaskGroup(count=2, cpu_milli=1000)],
)


class Partitioned(Chance):
    """Histories on nodes with MIG devices and islands."""

    def _join(self, number: int, b: int) -> Iterable[Fact]:
        spec = CARDS[(number + b // 4) % len(CARDS)]
        for fact in super()._join(number, b):
            if isinstance(fact, facts.NodeJoined):
                yield fact.model_copy(update={"devices": devices(spec, fact.node)})
            else:
                yield fact

    def _submit(self, a: int, b: int) -> Fact:
        self.jobs += 1
        project = ("red-day", "red-night", "blue", "guest")[(a + b) % 4] if self.shared else None
        rest: dict[str, object] = {"project": project} if project is not None else {}
        if a % 3:
            rest["placement"] = "prefer nvlink"
        shape = SHAPES[b % len(SHAPES)]
        if self.shared and b % 3 == 0:
            rest["min_tasks"] = 1
        return self.story.submitted(f"job-{self.jobs}", *shape, cls=CLASSES[a % len(CLASSES)], **rest)


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
