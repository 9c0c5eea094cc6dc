"""A project does not borrow during its cooldown after a reclaim."""

import pytest
from tests.kits.builders import requested_unit
from tests.kits.pools import Bench

from bailiff_core.fold.displacements import note_reclaimed
from bailiff_core.quota import quota_checks
from bailiff_core.scheduling_snapshot import current_snapshot

PROJECTS = [
    {"name": "lab", "quota": {"gpus": 4}},
    {"name": "vision", "parent": "lab", "quota": {"gpus": 2}},
    {"name": "speech", "parent": "lab", "quota": {"gpus": 2}},
    {"name": "web", "quota": {"gpus": 4}},
]


def bench(cooldown="5m") -> Bench:
    return Bench(projects=PROJECTS, protections={"cooldown": {"project": cooldown}})


def barred(bench: Bench, job) -> str | None:
    bench.state.indices.snapshot = None
    return quota_checks.cooldown_violation(current_snapshot(bench.state), requested_unit(job))


def test_its_quota_stays_available_during_its_cooldown():
    pool_bench = bench()
    note_reclaimed(pool_bench.state, "web", ["vision"])
    assert barred(pool_bench, pool_bench.waiting("own", project="vision", gpus=2)) is None
    pool_bench.running("runs", project="vision", gpus=1)
    assert barred(pool_bench, pool_bench.waiting("more", project="vision", gpus=2)) is not None


def test_a_job_without_the_reclaimed_resource_is_not_restricted():
    pool_bench = bench()
    pool_bench.running("runs", project="vision", gpus=3)
    note_reclaimed(pool_bench.state, "web", ["vision"])
    assert barred(pool_bench, pool_bench.waiting("cpu-only", project="vision", gpus=0)) is None


def test_a_reclaimed_department_does_not_borrow_through_another_team():
    pool_bench = bench()
    pool_bench.running("runs", project="speech", gpus=2)
    note_reclaimed(pool_bench.state, "web", ["speech"])
    other = pool_bench.waiting("other", project="vision", gpus=3)
    assert "project lab" in barred(pool_bench, other)
    assert barred(pool_bench, pool_bench.waiting("within", project="vision", gpus=2)) is None, "lab stays within its quota of 4"


def test_between_teams_of_one_department_the_department_is_not_marked():
    pool_bench = bench()
    note_reclaimed(pool_bench.state, "vision", ["speech"])
    assert list(pool_bench.state.reclaimed_at) == ["speech"]


@pytest.mark.parametrize("who", ["web", "vision"])
def test_a_project_that_was_not_reclaimed_borrows_as_before(who):
    pool_bench = bench()
    note_reclaimed(pool_bench.state, "web", ["speech"] if who == "web" else [])
    assert barred(pool_bench, pool_bench.waiting("x", project=who, gpus=8)) is None
