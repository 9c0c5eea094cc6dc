"""Situations from public bug reports, played by all services on simulated machines: what races with a grace (61, 64)."""

from bailiff_core.records import decisions, facts
from bailiff_core.records.job_requests import CancelJob, EvictJob

from .played import SECOND, Played, post, submit


def test_61_what_each_of_four_victims_does_in_its_grace_decides_what_becomes_of_it() -> None:
    played = Played(
        submit(1.0, "v-ignore", 2, "ignore", grace=4 * SECOND),
        submit(1.0, "v-done", 2, "exit:0:1", grace=10 * SECOND),
        submit(1.0, "v-donefin", 2, "exit:0:1", grace=10 * SECOND, on_term="finish"),
        submit(1.0, "v-fail", 2, "exit:3:0.3", grace=10 * SECOND, max_failures=0),
        submit(5.0, "big", 8, cls="inference", run_for=4),
    )
    for name, outcome in (("v-ignore", "preempted-unclean"), ("v-done", "preempted"), ("v-fail", "preempted-unclean")):
        requeued = played.of(decisions.JobRequeued, name)[0]
        assert (requeued.outcome, requeued.cause) == (outcome, "preemption")
        assert (played.job(name).evictions, played.job(name).failures) == (1, 0)
        assert len(played.of(facts.TaskStarted, name)) == 2  # it comes back
    ignored = played.of(facts.TaskExited, "v-ignore")[0]
    assert ignored.exit_code == -9  # killed at the end of its grace
    (end,) = played.of(decisions.JobEnded, "v-donefin")
    assert (end.outcome, played.job("v-donefin").evictions) == ("succeeded", 0)
    assert [each.outcome for each in played.of(decisions.JobEnded, "big")] == ["succeeded"]


def test_64_a_a_victim_whose_preemptor_goes_in_its_grace_stays_or_is_said_to_be_too_late() -> None:
    played = Played(
        submit(1.0, "va", 8, "ignore", grace=6 * SECOND),
        submit(5.0, "pa", 8, cls="inference"),
        post(7.0, CancelJob(job="pa"), "cancel-pa"),
    )
    (cancelled,) = played.of(decisions.EvictionCancelled, "va")
    assert "pa no longer needs the resources" in cancelled.reason
    assert played.of(facts.TaskCancelEvictionRefused, "va")  # it had been told to stop
    assert played.of(decisions.JobRequeued, "va")[0].outcome == "preempted-unclean"
    assert len(played.of(facts.TaskStarted, "va")) == 2


def test_64_b_a_fresh_attempt_survives_the_deadline_of_the_one_before() -> None:
    played = Played(
        submit(1.0, "vb", 8, "exit:85:0.2", grace=8 * SECOND, run_for=25),
        post(5.0, EvictJob(job="vb", reason="test"), "evict-vb"),
    )
    (requeued,) = played.of(decisions.JobRequeued, "vb")
    assert (requeued.cause, requeued.attempt) == ("requested", 1)
    exits = played.of(facts.TaskExited, "vb")
    assert [(each.attempt, each.exit_code) for each in exits] == [(1, 85), (2, 0)]
    assert not [each for each in played.of(facts.EvictionStageReached, "vb") if each.attempt == 2]
    started, ended = played.times(facts.TaskStarted, "vb")[1], played.times(decisions.JobEnded, "vb")[0]
    assert ended - started >= 24  # beyond the old deadline


def test_64_c_a_job_that_is_evicted_while_it_only_starts_comes_back_once() -> None:
    played = Played(
        submit(1.0, "vc", 8, "exit:85:0.2", grace=8 * SECOND, run_for=20), submit(1.05, "pc", 8, cls="inference", run_for=3)
    )
    vc, (requeued,) = played.job("vc"), played.of(decisions.JobRequeued, "vc")
    assert (requeued.outcome.startswith("preempted"), requeued.cause) == (True, "preemption")
    assert (vc.evictions, vc.failures, vc.losses, vc.yields) == (1, 0, 0, 0)
    assert [each.outcome for each in played.of(decisions.JobEnded, "pc")] == ["succeeded"]
    assert [each.outcome for each in played.of(decisions.JobEnded, "vc")] == ["succeeded"]
    assert played.times(facts.TaskStarted, "pc")[0] <= played.times(facts.TaskStarted, "vc")[-1]
