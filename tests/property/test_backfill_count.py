"""Backfill counts the jobs that end before the head of the queue fits: the count equals that of a step-by-step simulation."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from tests.kits.builders import requested_unit
from tests.kits.examples import examples
from tests.kits.log_builder import Story
from tests.property.busy_stories import Busy, busy_steps
from tests.property.random_stories import Chance, Step, steps

from bailiff_core.model.scheduling_class import scheduling_class_of
from bailiff_core.model.state import Job, PoolState, Resources
from bailiff_core.model.units import next_unit, whole_job
from bailiff_core.placement.cluster_resources import ClusterResources
from bailiff_core.placement.feasibility import could_ever_fit
from bailiff_core.placement.gang import GangPlacement, place_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.queue.backfill import Backfill, resources_to_reserve
from bailiff_core.queue.head import BackfilledVictims
from bailiff_core.scheduling_snapshot import current_snapshot

QUICK = examples(15)
ENOUGH = 100_000
PARTS = 10  # each takes a minute or two, more on a busy machine


def counted(state: PoolState, job: Job) -> tuple[dict[int, Resources], int | None]:
    """The resources that backfill reserves for the job, and its predicted start."""
    backfill = Backfill(current_snapshot(state), requested_unit(job), StepBudget(ENOUGH))
    return backfill.reserved, backfill.starts


def played(state: PoolState, job: Job) -> tuple[dict[int, Resources], int | None]:
    """The same by simulation: jobs end one after the other until the job fits."""
    unit, cluster = requested_unit(job), ClusterResources.of(state)
    if could_ever_fit(state, job.demand) is not None:
        return {}, None
    before = cluster.mark()
    starts: int | None = state.now
    for moment, ending in [(state.now, None), *ends(state, job)]:
        if ending is not None:
            cluster.evict(whole_job(ending))
            starts = None if moment is None else max(moment, state.now)
        place = place_unit(cluster, unit, StepBudget(ENOUGH), reserve=True)
        if isinstance(place, GangPlacement):
            break
    else:
        return {}, None
    nodes = [cluster.nodes[number] for number in dict.fromkeys(task.node for task in place.tasks)]
    after = [node.future for node in nodes]
    cluster.rollback(before)
    kept = {node.number: resources_to_reserve(node, later) for node, later in zip(nodes, after, strict=True)}
    return kept, starts if kept else None


def ends(state: PoolState, head: Job) -> list[tuple[int | None, Job]]:
    """Jobs in the order of their expected ends, with the time if known. Backfilled jobs that the head may evict are first."""
    evicted = BackfilledVictims(current_snapshot(state), requested_unit(head)).now()
    found: list[tuple[tuple[int, int, int, str], Job]] = []
    for job in state.jobs.values():
        limit = job.demand.run_time_limit
        begins = any(task.state == "starting" for task in job.tasks)
        if job.id in evicted:
            found.append(((0, 0, job.seq, job.id), job))
        elif job.phase == "reserved":
            found.append(((2, 0, job.seq, job.id), job))
        elif (job.phase == "running" and job.last_start is not None) or (job.phase == "starting" and begins):
            since = state.now if job.phase == "starting" or job.last_start is None else job.last_start
            found.append(((1, since, job.seq, job.id) if limit is None else (0, since + limit, job.seq, job.id), job))
    return [(key[1] if key[0] == 0 else None, job) for key, job in sorted(found, key=lambda entry: entry[0])]


def pending_heads(state: PoolState) -> Iterator[Job]:
    """Every pending job, as if it were the head."""
    for job in map(state.jobs.__getitem__, state.queue):
        if job.phase == "pending" and next_unit(job) is not None:
            yield job


def agree(story: Story) -> None:
    """After a cycle: for each pending job the count equals that of a step-by-step simulation, once per demand and victims."""
    expected: dict[tuple[str, ...], tuple[dict[int, Resources], int | None]] = {}
    for job in pending_heads(story.state):
        shape = (scheduling_class_of(job.demand), *BackfilledVictims(current_snapshot(story.state), requested_unit(job)).now())
        if shape not in expected:
            expected[shape] = played(story.state, job)
        assert counted(story.state, job) == expected[shape], job.id


@given(busy_steps(40))
@QUICK
def test_the_count_equals_that_of_a_step_by_step_simulation(steps_before: list[Step]) -> None:
    Busy(agree).play(steps_before)


@given(steps(30))
@QUICK
def test_the_count_is_right_with_elastic_gangs_shared_devices_and_topologies(cycles: list[list[Step]]) -> None:
    Chance(agree, shared=True).play(cycles)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
@given(steps_before=busy_steps(200), cycles=steps(80))
@settings(QUICK, max_examples=1_000 // PARTS)
def test_the_count_is_right_in_longer_histories(part: int, steps_before: list[Step], cycles: list[list[Step]]) -> None:
    Busy(agree).play(steps_before)
    Chance(agree, shared=True).play(cycles)
