"""A pool whose jobs are decoded one by one answers as one whose jobs are all there: lists, pages, explanations."""

import json
from random import Random

import pytest
from tests.kits.examples import share
from tests.property.rich_stories import Rich

from bailiff.client.job_filter import SORTS, JobFilter, page
from bailiff.render.serializers.jobs import STATES, JobRow, job_row, pending
from bailiff_core.explain import explain_job
from bailiff_core.fold import apply
from bailiff_core.fold.pending_queue import queue_key
from bailiff_core.fold.snapshot import SnapshotIndex, from_changes, from_snapshot, removed_since, snapshot_parts, state_digest
from bailiff_core.model.state import ENDED, Job, PoolState
from bailiff_core.model.undecoded import Undecoded
from bailiff_core.quota.usage import Usage

SEEDS = sorted({*range(share(45)), 19})  # 19: jobs of a project that the policy has no more


class Pool:
    """A random pool, at some time of its history."""

    def __init__(self, seed: int) -> None:
        self.random, self._index = Random(seed), SnapshotIndex()
        rich = Rich(self.random, lambda _: None)
        rich.play(self.random.choice((5, 20, 60)))
        self._data = b"".join(snapshot_parts(rich.state, self._index))
        self.history = rich.story.records

    def whole(self) -> PoolState:
        """All jobs are decoded."""
        return from_snapshot(self._data)

    def undecoded(self) -> PoolState:
        """None is."""
        state = from_snapshot(self._data, self._index)
        assert isinstance(state.jobs, Undecoded)
        return state


@pytest.mark.parametrize("seed", SEEDS)
def test_each_job_is_explained_alike(seed: int) -> None:
    pool = Pool(seed)
    for name in pool.whole().jobs:
        state, whole = pool.undecoded(), pool.whole()
        assert explain_job(state, state.jobs[name], pool.history) == explain_job(whole, whole.jobs[name], pool.history)
        assert state_digest(state) == state_digest(whole)


@pytest.mark.parametrize("seed", SEEDS)
def test_projects_use_and_request_the_same(seed: int) -> None:
    """A pending job that is not decoded counts as another of its kind."""
    pool = Pool(seed)
    found, expected = Usage.of(pool.undecoded()), Usage.of(pool.whole())
    assert (found.requests, found.all_allocated()) == (expected.requests, expected.all_allocated())


@pytest.mark.parametrize("seed", SEEDS)
def test_pages_have_the_rows_of_the_whole_list(seed: int) -> None:
    pool = Pool(seed)
    whole, draw = pool.whole(), pool.random
    for _ in range(20):
        wanted, own, sort = filter_of(draw, whole), draw.choice(["", *(job.demand.user or "" for job in whole.jobs.values())]), ()
        if draw.random() < 0.5:
            sort = tuple(draw.choice(("", "-")) + name for name in draw.sample(sorted(SORTS), draw.randint(1, 3)))
        expected = the_whole_way(whole, wanted, sort)
        limit = draw.choice((1, 2, 5, 100))
        if own and not sort and len(expected) > limit:
            expected.sort(key=lambda row: row["user"] != own)
        state, found, after = pool.undecoded(), list[JobRow](), None
        while True:
            shown = page(state, whole.now, wanted, sort, limit=limit, after=after, own=own)
            assert (len(shown.rows) <= limit, shown.total) == (True, len(expected))
            found += shown.rows
            if (after := shown.next) is None:
                break
        assert found == expected


def filter_of(draw: Random, state: PoolState) -> JobFilter:
    """A random one, of values that occur."""
    job = draw.choice([*state.jobs.values()]) if state.jobs else None

    def some(*values: str) -> tuple[str, ...]:
        return values if job is not None and draw.random() < 0.25 else ()

    return JobFilter(
        states=some(*draw.sample(STATES, 3)),
        users=some(job.user or job.demand.user or "") if job else (),
        project=job.project if job and job.project and draw.random() < 0.25 else None,
        classes=some(job.class_name) if job else (),
        nodes=some(*(state.nodes[task.node].name for task in job.tasks)) if job else (),
        labels=dict(job.demand.labels) if job and draw.random() < 0.25 else None,
        names=some(job.id[:-1] + "*") if job else (),
        since=draw.choice((None, None, None, job.submitted_at)) if job else None,
        until=draw.choice((None, None, None, job.submitted_at)) if job else None,
        ended=draw.random() < 0.5,
    )


def the_whole_way(state: PoolState, wanted: JobFilter, sort: tuple[str, ...]) -> list[JobRow]:
    """A row of each job is made; then they are chosen and sorted."""
    waits, jobs = pending(state), [*state.jobs.values()]

    def group(job: Job) -> int:
        phases = {"waiting": 2, "paused": 3, **dict.fromkeys(ENDED, 4)}
        return 0 if job.id in state.active else phases.get(job.phase, 1)

    last = list(reversed(state.ended))
    jobs.sort(key=lambda job: (group(job), (last.index(job.id),) if job.id in state.ended else queue_key(job)))
    rows = [job_row(state, job, state.now, waits.index(job.id) if job.id in waits else None) for job in jobs]
    below = {wanted.project: None}
    for _ in state.rules.projects if wanted.project is not None else ():
        below |= {each.name: None for each in state.rules.projects if each.parent in below}
    rows = [
        row
        for row in rows
        if (group(state.jobs[row["job"]]) < 4 or wanted.with_ended)
        and (wanted.project is None or row["project"] in below)
        and (not wanted.users or row["user"] in wanted.users)
        and (not wanted.classes or row["priority_class"] in wanted.classes)
        and (not wanted.names or row["job"].startswith(wanted.names[0][:-1]))
        and wanted.takes(row, state.jobs[row["job"]].submitted_at)
    ]
    for field in reversed(sort):
        name = field.removeprefix("-")
        by_seq = {job.id: job.seq for job in jobs}
        rows.sort(key=lambda row: by_seq[row["job"]] if name == "submitted" else SORTS[name](row), reverse=field.startswith("-"))
    return rows


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_kept_again_and_again_are_the_state_of_the_whole_log(seed: int) -> None:
    random, index = Random(seed), SnapshotIndex()
    rich = Rich(random, lambda _: None)
    rich.play(20)
    snapshot = b"".join(snapshot_parts(rich.state, index))
    state, whole, stored = from_snapshot(snapshot, copied(index)), from_snapshot(snapshot), len(rich.story.records)
    for _ in range(3):
        rich.play(random.choice((1, 5, 20)))
        for record in rich.story.records[stored:]:
            apply(state, record)
            apply(whole, record)
        stored = len(rich.story.records)
        for name in random.sample([*state.jobs], len(state.jobs) // 2):
            assert state.jobs[name].id == name, "somebody asked for it"
        kept = SnapshotIndex()
        changes, removed = b"".join(snapshot_parts(state, kept, changes=True)), removed_since(state)
        state = from_changes(from_snapshot(snapshot, copied(index)), changes, copied(kept), removed)
        assert [*state.jobs] == [*whole.jobs]
        assert state_digest(state) == state_digest(whole)


def copied(index: SnapshotIndex) -> SnapshotIndex:
    """As it is read from a file."""
    return SnapshotIndex.from_data(json.loads(json.dumps(index.to_data())))
