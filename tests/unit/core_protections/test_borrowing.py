"""A project that was just reclaimed from does not immediately borrow back."""

import pytest
from tests.builders import asking
from tests.unit.core_protections.kit import MINUTE, Bench

from bailiff_core.fold.displacements import note_reclaimed
from bailiff_core.quota import project_cooldown
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
    return project_cooldown.cooldown_violation(current_snapshot(bench.state), asking(job))


def test_who_lost_by_reclaim_waits_before_it_goes_beyond_its_quota_again():
    told = bench()
    note_reclaimed(told.state, "web", ["vision"])
    again = told.waiting("again", project="vision", gpus=3)
    assert barred(told, again) == "project vision was reclaimed from a moment ago and does not borrow back yet (rule cooldown)"
    assert (
        project_cooldown.may_borrow_at(told.state, "vision")
        == told.state.now + 5 * MINUTE
        == project_cooldown.next_cooldown_end(told.state)
    )
    told.later(5 * MINUTE - 1)
    assert barred(told, again) is not None
    told.later(1)
    assert barred(told, again) is None
    assert project_cooldown.next_cooldown_end(told.state) is None


def test_its_quota_is_open_to_it_all_the_while():
    told = bench()
    note_reclaimed(told.state, "web", ["vision"])
    assert barred(told, told.waiting("own", project="vision", gpus=2)) is None
    told.running("runs", project="vision", gpus=1)
    assert barred(told, told.waiting("more", project="vision", gpus=2)) is not None


def test_what_is_not_asked_for_is_not_borrowed():
    told = bench()
    told.running("runs", project="vision", gpus=3)
    note_reclaimed(told.state, "web", ["vision"])
    assert barred(told, told.waiting("cpu-only", project="vision", gpus=0)) is None


def test_the_department_that_lost_does_not_borrow_through_another_team():
    told = bench()
    told.running("runs", project="speech", gpus=2)
    note_reclaimed(told.state, "web", ["speech"])
    other = told.waiting("other", project="vision", gpus=3)
    assert "project lab" in barred(told, other)
    assert barred(told, told.waiting("within", project="vision", gpus=2)) is None, "lab stays within its quota of 4"


def test_between_teams_of_one_department_the_department_is_not_marked():
    told = bench()
    note_reclaimed(told.state, "vision", ["speech"])
    assert list(told.state.reclaimed_at) == ["speech"]


@pytest.mark.parametrize("who", ["web", "vision"])
def test_who_was_not_reclaimed_from_borrows_as_before(who):
    told = bench()
    note_reclaimed(told.state, "web", ["speech"] if who == "web" else [])
    assert barred(told, told.waiting("x", project=who, gpus=8)) is None


def test_the_rule_can_be_off():
    told = bench(cooldown=0)
    note_reclaimed(told.state, "web", ["vision"])
    assert barred(told, told.waiting("again", project="vision", gpus=8)) is None
    assert project_cooldown.next_cooldown_end(told.state) is None


def test_a_project_that_is_not_named_any_more_opens_nothing():
    told = bench()
    told.state.reclaimed_at["gone"] = told.state.now - MINUTE
    assert project_cooldown.may_borrow_at(told.state, "gone") == told.state.now + 4 * MINUTE
    assert barred(told, told.waiting("x", project="vision", gpus=8)) is None
