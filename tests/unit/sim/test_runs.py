"""Runs of several schedulers, their statistics, and the manifest that reproduces them."""

import json
from dataclasses import replace

import pytest
from matplotlib.figure import Figure
from tests.kits.sim_worlds import HOUR, MINUTE, SECOND, World, policy

from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_sim.baselines import RULES, Baseline
from bailiff_sim.engine import Simulation
from bailiff_sim.metrics import Run, Series, jain, metrics
from bailiff_sim.report import allocated, frontier_page, page, plot, waits
from bailiff_sim.runs import BASELINES, Experiment, digest, experiment_from, manifest, refusals, run_all, summary
from bailiff_sim.timeline import NO_DELAYS
from bailiff_sim.traces.catalogue import trace
from bailiff_sim.tune import Point, Search, settings, tune, with_setting
from bailiff_sim.workload_builder import Choices

POOLWIDE = policy(preemption={"scope": "pool"})
TRACE = trace("tiresias-60")
ASK = Experiment(
    "tiresias-60", "2x4", Choices(mix={"inference": 30, "train": 70}), NO_DELAYS, {"mine": POOLWIDE}, BASELINES, (0, 1)
)


def run_of(world: World) -> Run:
    """The world under a policy of one pool, as a run."""
    workload = world.workload()
    result = Simulation(workload, POOLWIDE).run()
    last = workload.events[-1].time
    ended = max(job.ended for job in result.jobs.values())
    return Run("x", 0, result.jobs, result.stats, {}, result.begin, ended, last, workload.capacity(), {}, {}, result.digest)


@pytest.mark.slow
def test_a_manifest_runs_again_to_the_same_digests() -> None:
    runs = run_all(ASK, TRACE)
    loaded = json.loads(json.dumps(manifest(ASK, TRACE, runs)))
    again = experiment_from(loaded["experiment"])
    assert [digest(run) for run in run_all(again, TRACE)] == [each["digest"] for each in loaded["runs"]]
    assert len({each["digest"] for each in loaded["runs"]}) == len(BASELINES) * 2 + 2
    assert {len(each["log"]) for each in loaded["runs"]} == {0, 64}
    other = replace(ASK, seeds=(2,), baselines=())
    assert digest(run_all(other, TRACE)[0]) not in {each["digest"] for each in loaded["runs"]}


@pytest.mark.slow
def test_a_report_of_several_seeds_names_each_scheduler_once_in_a_plot() -> None:
    runs = run_all(replace(ASK, baselines=("fifo",)), TRACE)
    text = plot("Waits", waits, runs, "How long.")
    assert text.count(">mine<") == text.count(">fifo<") == 1
    assert "One line per seed." in text
    assert "var(--soft)" in text, "words of a plot are readable in light and in dark"


@pytest.mark.slow
def test_a_plot_over_time_has_the_unit_of_its_length() -> None:
    world = World("1x8")
    world.job("first", at=0, runs=MINUTE, gpus=8)
    for length, words in ((30 * MINUTE, ">minutes<"), (30 * HOUR, ">hours<"), (90 * HOUR, ">days<")):
        world.job(f"at-{length}", at=length, runs=MINUTE, gpus=8)
        text = plot("GPUs", allocated, [run_of(world)], "Held.")
        assert words in text
        assert ">GPUs<" in text
        assert ">capacity<" in text


@pytest.mark.slow
def test_the_report_is_self_contained() -> None:
    runs = run_all(replace(ASK, seeds=(0,)), TRACE)
    text = page("A & B", ["a note"], runs, summary(runs), "{}")
    assert "A &amp; B" in text
    assert text.count("<svg") == 3
    for label in ("mine", *BASELINES):
        assert label in text
    assert "<script" not in text
    assert "src=" not in text
    assert text == page("A & B", ["a note"], runs, summary(runs), "{}")


def test_figures_match_values_computed_independently() -> None:
    world = World("1x8")
    world.job("train", at=0, runs=HOUR, gpus=8, checkpoint_every=4 * MINUTE)
    world.job("serve", at=10 * MINUTE, runs=5 * MINUTE, gpus=8, cls="inference")
    found = metrics(run_of(world))
    assert found["evictions_by_cause"] == {"preemption": 1}
    hours = found["gpu_hours"]
    assert hours["lost"] == pytest.approx(8 * 2 / 60)
    assert hours["work"] == pytest.approx(8 * 65 / 60)
    assert hours["held"] == pytest.approx(8 * 67 / 60)
    assert found["goodput"] == pytest.approx(65 / 67)
    assert found["utilisation"] == pytest.approx(1.0)
    assert found["waiting"]["class inference"]["mean"] == 0
    assert found["waiting"]["class train"]["mean"] == pytest.approx(5 / 60)
    assert found["slowdown"]["class train"]["max"] == pytest.approx(67 / 60)


def test_no_job_is_faster_than_undisturbed() -> None:
    """A job of a second counts as one of ten, but not as ten times faster than it ran."""
    world = World("1x8")
    world.job("quick", at=0, runs=SECOND, gpus=1)
    assert metrics(run_of(world))["slowdown"]["all"]["max"] == 1


def test_a_project_has_its_share_of_what_it_is_entitled_to() -> None:
    world = World("1x8")
    world.job("a", at=0, runs=10 * HOUR, gpus=8, demand={"project": "red"})
    world.job("b", at=0, runs=HOUR, gpus=8, demand={"project": "blue"})
    world.job("end", at=10 * HOUR, runs=SECOND, demand={"project": "blue"})
    run = run_of(world)
    shares = Series(run).shares()
    assert shares == {"red": pytest.approx(1.0), "blue": pytest.approx(0.0, abs=0.01)}
    assert metrics(run)["fairness"]["jain"] == pytest.approx(0.5, abs=0.01)
    entitled = Series(replace(run, quotas={"red": 8000})).shares()
    assert entitled["red"] == pytest.approx(1.0)
    assert entitled.get("blue", 0) == pytest.approx(0.0, abs=0.01), "nothing is left that it would be entitled to"


def test_a_restart_counts_against_goodput() -> None:
    world = World("1x8")
    world.job("train", at=0, runs=HOUR, gpus=8, save_time=0, restart_cost=10 * MINUTE)
    world.job("serve", at=10 * MINUTE, runs=5 * MINUTE, gpus=8, cls="inference")
    found = metrics(run_of(world))
    assert (found["gpu_hours"]["lost"], found["gpu_hours"]["restarts"]) == (0, pytest.approx(8 * 10 / 60))
    assert found["goodput"] == pytest.approx(65 / 75)


def test_the_wait_of_a_pending_job_lasts_until_the_end() -> None:
    """In the figures, in the plot and in what tuning compares: a job that never starts is not one that never waits."""
    world = World("1x8")
    world.job("serving", at=0, runs=1 << 62, gpus=8, cls="inference")
    world.job("waits", at=HOUR, runs=MINUTE, gpus=8, cls="inference")
    workload = world.workload()
    result = Simulation(workload, POOLWIDE, until=workload.begin + 3 * HOUR).run()
    run = Run(
        "x", 0, result.jobs, result.stats, {}, result.begin, workload.begin + 3 * HOUR, result.end, workload.capacity(), {}, {}
    )
    assert metrics(run)["waiting"]["all"]["max"] == 2
    axes = Figure().add_subplot()
    waits(axes, run, "x", "red")
    assert max(axes.lines[0].get_xdata()) == 2 * HOUR


@pytest.mark.slow
def test_percentiles_are_by_nearest_rank() -> None:
    world = World("1x8")
    for minute in range(200):
        world.job(f"job-{minute:03}", at=0, runs=MINUTE, gpus=8)
    found = metrics(run_of(world))
    seconds = {name: round(60 * found["waiting"]["all"][name]) for name in ("p50", "p95", "p99", "max")}
    assert seconds == {"p50": 99, "p95": 189, "p99": 197, "max": 199}
    assert found["utilisation"] == pytest.approx(1), "jobs that all come at once are looked at until the last has ended"


def test_jains_index() -> None:
    assert jain([1, 1, 1, 1]) == 1
    assert jain([1, 0, 0, 0]) == 0.25
    assert jain([1]) is None
    assert jain([0, 0]) is None


@pytest.mark.parametrize("name", RULES)
def test_baselines_conserve_work_and_overbook_nothing(name: str) -> None:
    world = World("2x4,1x2")
    for number in range(60):
        world.job(
            f"job-{number}",
            number % 7 * 5 * MINUTE + number * MINUTE,
            (1 + number * 7 % 50) * MINUTE,
            gpus=(1, 1, 2, 4)[number % 4],
            tasks=2 if number % 5 == 0 else 1,
            cls=("train", "train", "inference")[number % 3],
            checkpoint_every=10 * MINUTE,
            save_time=(None, 20 * SECOND, HOUR)[number % 3],
            restart_cost=MINUTE,
        )
    result = Baseline(world.workload(), POOLWIDE, RULES[name]).run()
    allocated = 0
    for step in result.stats.steps:
        allocated += step.allocated
        assert 0 <= allocated <= 10_000
    assert allocated == 0
    for job in result.jobs.values():
        assert job.work == job.run_time
        assert job.ended - job.submitted == job.run_time + job.waited + job.lost + job.overhead + _saving(job, world)


def _saving(job, world: World) -> int:
    """What it stood still while it saved, or until it was killed."""
    needs = world.outcomes[job.name].save_time
    return 0 if needs is None else job.evicted * min(needs, POOLWIDE.eviction.grace)


def test_youngest_first_takes_the_youngest() -> None:
    world = World("1x8")
    world.job("old", at=0, runs=HOUR, gpus=4)
    world.job("young", at=MINUTE, runs=HOUR, gpus=4)
    world.job("serve", at=10 * MINUTE, runs=MINUTE, gpus=2, cls="inference")
    jobs = Baseline(world.workload(), POOLWIDE, RULES["youngest-first"]).run().jobs
    assert jobs["young"].evictions == {"preemption": 1}
    assert not jobs["old"].evictions
    assert jobs["serve"].waited == 0


def test_a_knob_is_a_field_of_the_policy() -> None:
    changed = with_setting(DEFAULT_POLICY, {"protections.min_runtime.preempt": "1h", "eviction.grace": "30s"})
    assert (changed.protections.min_runtime.preempt, changed.eviction.grace) == (HOUR, 30 * SECOND)
    assert with_setting(DEFAULT_POLICY, {"protections.eviction_cap.evictions": 2}).protections.eviction_cap.evictions == 2
    with_projects = policy(projects=[{"name": "vision", "quota": {"gpus": 4}}, {"name": "default"}])
    assert with_setting(with_projects, {"projects.vision.quota.gpus": 6}).projects[0].quota.gpu_milli == 6000
    with pytest.raises(ValueError, match="there is no field 'graze'"):
        with_setting(DEFAULT_POLICY, {"eviction.graze": "30s"})
    with pytest.raises(ValueError, match=r"eviction.grace=soon: eviction.grace"):
        with_setting(DEFAULT_POLICY, {"eviction.grace": "soon"})


def test_of_many_settings_some_are_chosen_by_seed() -> None:
    knobs = {"eviction.grace": ["1s", "2s", "3s"], "protections.cooldown.job": ["0s", "1m", "2m"]}
    assert len(settings(knobs, 9, 0)) == 9
    some = settings(knobs, 4, 1)
    assert len(some) == 4
    assert some == settings(knobs, 4, 1)
    assert some[0] == {"eviction.grace": "1s", "protections.cooldown.job": "0s"}


@pytest.mark.slow
def test_tuning_shows_the_frontier_and_no_best() -> None:
    knobs = {"protections.min_runtime.preempt": ["0s", "2h"]}
    points = tune(Search(replace(ASK, seeds=(0,), baselines=()), knobs), TRACE)
    assert len(points) == 2
    by_setting = {str(point.setting["protections.min_runtime.preempt"]): point for point in points}
    assert by_setting["2h"].lost < by_setting["0s"].lost
    assert by_setting["0s"].waited < by_setting["2h"].waited
    assert all(point.frontier for point in points)
    assert {point.not_ended for point in points} == {0}
    worse = Point({"protections.min_runtime.preempt": "9h"}, lost=9.0, waited=9.0, waited_p95=9.0, others_waited=0.0, evictions=0)
    assert "<td>*</td>" in frontier_page("t", [], [*points, worse], "{}")


@pytest.mark.slow
def test_a_setting_under_which_jobs_never_end_is_on_no_frontier() -> None:
    """Without quota no inference job is accepted, so that none of them is pending and no job is preempted for one."""
    ask = replace(ASK, policies={"mine": policy(projects=[{"name": "default", "quota": {"gpus": 8}}])}, seeds=(0,), baselines=())
    without, some = sorted(tune(Search(ask, {"projects.default.quota.gpus": [0, 8]}), TRACE), key=lambda point: -point.not_ended)
    assert (without.setting, without.frontier) == ({"projects.default.quota.gpus": 0}, False)
    assert without.not_ended > some.not_ended == 0
    assert some.frontier
    assert some.waited != some.others_waited
    assert "more jobs never end" in frontier_page("t", [], [without, some], "{}")


@pytest.mark.slow
def test_rejected_jobs_are_reported_with_the_reason_of_the_first() -> None:
    runs = run_all(replace(ASK, cluster="1x1", seeds=(0,), baselines=("fifo",), choices=Choices()), TRACE)
    (refusal,) = refusals(runs)
    assert refusal.startswith("mine, fifo: 30 jobs rejected, counted only in 'not ended'; the first is job-1: even on the empty")
    assert refusals(run_all(replace(ASK, seeds=(0,), baselines=()), TRACE)) == []
