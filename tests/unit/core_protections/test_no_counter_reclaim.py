"""No job reclaims from the jobs that displaced it: which jobs are protected, and for how long."""

from dataclasses import replace

import pytest
from tests.histories.record import no_counter_reclaim, run_rounds
from tests.kits.log_builder import Story
from tests.kits.pools import Bench, core, surplus

from bailiff_core.fold.displacements import note_displacement
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.protections import excluded_by
from bailiff_core.protections import no_counter_reclaim as no_counter_reclaim_rule


def displaces(bench: Bench, preemptor: str, victim: str, *, asks_surplus: bool = False, loses_surplus: bool = False) -> None:
    bench.state.seq = max(bench.state.seq, 1000) + 1
    note_displacement(bench.state, preemptor, victim, asks_surplus=asks_surplus, loses_surplus=loses_surplus)


def shield(bench: Bench, unit, action="reclaim") -> str | None:
    bench.state.indices.snapshot = None
    return excluded_by(bench.state, action, bench.preemptor, unit)


@pytest.fixture
def bench() -> Bench:
    return Bench(projects=[{"name": "ours", "quota": {"gpus": 4}}, {"name": "theirs", "quota": {"gpus": 2}}])


def test_the_job_that_displaced_the_preemptor_is_protected_from_its_reclaim_only(bench):
    job, other = (bench.running(name, project="theirs") for name in "xy")
    displaces(bench, "x", "preemptor")
    assert shield(bench, core(job)) == "no-counter-reclaim"
    assert shield(bench, core(other)) is None
    assert no_counter_reclaim_rule.shield(bench.state, "reclaim", bench.preemptor) is not None
    assert no_counter_reclaim_rule.shield(bench.state, "preempt", bench.preemptor) is None


def test_the_protection_is_transitive(bench):
    jobs = [bench.running(name, project="theirs") for name in "xyz"]
    for preemptor, victim in (("x", "preemptor"), ("y", "x"), ("z", "y")):
        displaces(bench, preemptor, victim)
    assert [shield(bench, core(job)) for job in jobs] == ["no-counter-reclaim"] * 3


def test_later_surplus_may_be_reclaimed_and_surplus_that_displaced_may_not(bench):
    by_core = bench.running("x", tasks=3, min_tasks=1, project="theirs")
    by_surplus = bench.running("y", tasks=3, min_tasks=1, project="theirs")
    displaces(bench, "x", "preemptor")
    displaces(bench, "y", "preemptor", asks_surplus=True)
    assert (shield(bench, surplus(by_core)), shield(bench, core(by_core))) == (None, "no-counter-reclaim")
    assert (shield(bench, surplus(by_surplus)), shield(bench, core(by_surplus))) == ("no-counter-reclaim", "no-counter-reclaim")


def test_a_job_without_resources_is_checked_by_the_use_of_the_others(bench):
    """All its tasks have ended, and the record that says what became of it is not written yet."""
    ended = bench.running("x", project="theirs")
    displaces(bench, "x", "preemptor")
    bench.state.entitlements_changed = bench.state.seq + 1
    nothing = replace(core(ended), indices=())
    assert shield(bench, nothing) == "no-counter-reclaim"
    bench.running("y", gpus=4, project="theirs").tasks[0].start_seq = 1
    bench.waiting("w", gpus=4, project="ours")
    assert shield(bench, nothing) is None


@pytest.mark.parametrize("others_submit", [False, True], ids=["in-peace", "while-others-submit"])
def test_two_projects_do_not_evict_each_other_alternately(others_submit):
    story = Story()
    no_counter_reclaim(story, others_submit=others_submit)
    first, second = (decision for decision in story.decisions("PreemptionDecided"))
    assert (first.preemptor.job, [choice.job for choice in first.victims]) == ("c-small", ["b-gang"])
    assert (second.preemptor.job, [choice.job for choice in second.victims]) == ("b-gang", ["a-2", "c-large"])
    assert [excluded.examples for excluded in second.explanation.excluded if excluded.rule == "no-counter-reclaim"] == [
        ("c-small",)
    ]
    running = {name for name, phase in story.phases().items() if phase == "running"}
    assert running == {"a-1", "b-gang", "c-small"}, "each has its share"
    assert from_snapshot(to_snapshot(story.state)).displaced_by == story.state.displaced_by != {}
    for name in ("a-2", "b-gang", "c-large"):
        story.cancel(name)
    run_rounds(story, rounds=1)
    assert story.state.displaced_by == {}
    story.holds()
