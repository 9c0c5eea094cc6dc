"""Backfill counts who has to end for the head of the queue: what playing it through, one end after the other, comes to."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from tests.builders import asking
from tests.log_builder import Story
from tests.property.busy_stories import Busy, busy_steps
from tests.property.random_stories import Chance, Step, steps

from bailiff_core.model.pool import Job, Pool, Room
from bailiff_core.model.shape import shape_of
from bailiff_core.model.units import next_unit, whole
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.ever import could_ever_fit
from bailiff_core.placement.gang import GangPlace, place_unit
from bailiff_core.placement.rooms import Rooms
from bailiff_core.queue.backfill import Backfill, what_to_keep
from bailiff_core.scene import scene_of

QUICK = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
ENOUGH = 100_000
PARTS = 10  # each a run of a minute or two, more on a busy machine


def counted(pool: Pool, job: Job) -> tuple[dict[int, Room], int | None]:
    """What backfill keeps for the job, and when it says that the job starts."""
    backfill = Backfill(scene_of(pool), asking(job), Budget(ENOUGH))
    return backfill.kept, backfill.starts


def played(pool: Pool, job: Job) -> tuple[dict[int, Room], int | None]:
    """The same, on fresh rooms: one job after the other ends, until there is a place."""
    unit, rooms = asking(job), Rooms.of(pool)
    if could_ever_fit(pool, job.demand) is not None:
        return {}, None
    before = rooms.mark()
    starts: int | None = pool.now
    for moment, ending in [(pool.now, None), *ends(pool)]:
        if ending is not None:
            rooms.evict(whole(ending))
            starts = None if moment is None else max(moment, pool.now)
        place = place_unit(rooms, unit, Budget(ENOUGH), promised=True)
        if isinstance(place, GangPlace):
            break
    else:
        return {}, None
    nodes = [rooms.nodes[number] for number in dict.fromkeys(task.node for task in place.tasks)]
    after = [node.later for node in nodes]
    rooms.rollback(before)
    kept = {node.number: what_to_keep(node, later) for node, later in zip(nodes, after, strict=True)}
    return kept, starts if kept else None


def ends(pool: Pool) -> list[tuple[int | None, Job]]:
    """Who is taken to end, in that order, and when, where that is known."""
    found: list[tuple[tuple[int, int, int, str], Job]] = []
    for job in pool.jobs.values():
        limit = job.demand.run_time_limit
        begins = any(task.state == "starting" for task in job.tasks)
        if job.phase == "reserved":
            found.append(((2, 0, job.seq, job.id), job))
        elif (job.phase == "running" and job.last_start is not None) or (job.phase == "starting" and begins):
            since = pool.now if job.phase == "starting" or job.last_start is None else job.last_start
            found.append(((1, since, job.seq, job.id) if limit is None else (0, since + limit, job.seq, job.id), job))
    return [(key[1] if key[0] == 0 else None, job) for key, job in sorted(found, key=lambda entry: entry[0])]


def asked(pool: Pool) -> Iterator[Job]:
    """Every job that waits, as if it were the head."""
    for job in map(pool.jobs.__getitem__, pool.queue):
        if job.phase == "pending" and next_unit(job) is not None:
            yield job


def agree(story: Story) -> None:
    """After a turn: for whoever waits the count is what playing it through comes to, once for all who ask for the same."""
    expected: dict[str, tuple[dict[int, Room], int | None]] = {}
    for job in asked(story.pool):
        shape = shape_of(job.demand)
        if shape not in expected:
            expected[shape] = played(story.pool, job)
        assert counted(story.pool, job) == expected[shape], job.id


@given(busy_steps(40))
@QUICK
def test_the_count_is_what_playing_it_through_comes_to(told: list[Step]) -> None:
    Busy(agree).tell(told)


@given(steps(30))
@QUICK
def test_also_with_gangs_that_grow_parts_of_devices_and_topologies(turns: list[list[Step]]) -> None:
    Chance(agree, shared=True).tell(turns)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
@given(told=busy_steps(200), turns=steps(80))
@settings(QUICK, max_examples=1_000 // PARTS)
def test_the_count_is_right_in_longer_histories(part: int, told: list[Step], turns: list[list[Step]]) -> None:
    Busy(agree).tell(told)
    Chance(agree, shared=True).tell(turns)
