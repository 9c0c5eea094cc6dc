"""The past under another policy. First of all: under the policy that was in force it is the past."""

import dataclasses
import json
from html import escape
from pathlib import Path
from random import Random

import pytest
import yaml
from tests.histories import record as histories
from tests.kits.dataset import bailiff, write_log
from tests.kits.log_builder import DAY, HOUR, MINUTE, SECOND, Story, policy
from tests.kits.sim_worlds import BEGIN, random_world
from tests.kits.story_script import play

from bailiff.client.errors import ClientError
from bailiff.simulation.what_if import other_past
from bailiff_core.model.demand import Dependency
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.records import Record, decode, facts
from bailiff_sim.engine import Simulation
from bailiff_sim.from_log import from_log
from bailiff_sim.metrics import metrics
from bailiff_sim.timeline import Delays
from bailiff_sim.what_if import WhatIf, compared, groups, headline, same_policy, what_if
from bailiff_sim.what_if_report import page

ALLOCATE_ONLY = DEFAULT_POLICY.model_copy(
    update={"preemption": DEFAULT_POLICY.preemption.model_copy(update={"actions": ("allocate",)})}
)


def played(seed: int, jobs: int, *, hidden: bool) -> list[Record]:
    """The log of a simulated pool. hidden: jobs do what a log does not show whole: checkpoints of their own, restarts."""
    world, records = random_world(Random(seed), jobs), list[Record]()
    if not hidden:
        world.outcomes = {
            name: dataclasses.replace(each, checkpoint_every=None, restart_cost=0, save_time=each.save_time and 10 * SECOND)
            for name, each in world.outcomes.items()
        }
    delays = Delays(start=5 * SECOND, release=2 * SECOND, selection=SECOND // 2)
    Simulation(world.workload(), DEFAULT_POLICY, delays=delays, sink=lambda record, wire: records.append(decode(wire))).run()
    return records


def compare_with(tell) -> WhatIf:
    story = Story()
    tell(story)
    return what_if(from_log(map(decode, story.wires)), DEFAULT_POLICY)


@pytest.mark.parametrize("seed", [1, 4])
@pytest.mark.slow
def test_a_pools_past_is_reproduced_exactly_under_the_policy_that_was_in_force(seed: int):
    found = what_if(from_log(played(seed, 25, hidden=False)), ALLOCATE_ONLY)
    same = same_policy(found)
    assert same["jobs"] == same["waits_alike"] == 25
    assert same["repeat_evictions"] == same["evictions_recorded"] > 0
    assert same["jobs_with_other_evictions"] == 0
    assert same["gpu_hours_lost_again"] == pytest.approx(same["gpu_hours_lost_recorded"])
    assert not [name for name, job in found.changed.jobs.items() if "preemption" in job.evictions]


@pytest.mark.slow
def test_a_difference_that_the_log_does_not_explain_is_reported():
    same = same_policy(what_if(from_log(played(2, 25, hidden=True)), ALLOCATE_ONLY))
    assert same["waits_alike"] >= 0.6 * same["jobs"]
    assert abs(same["repeat_evictions"] - same["evictions_recorded"]) <= 3
    assert same["largest_difference_of_a_wait_s"] >= same["mean_difference_of_waits_s"]


@pytest.mark.parametrize(
    ("tell", "seconds", "evicted_otherwise"),
    [
        (histories.preemption_of_one_node, 0, 0),
        (histories.operator_requests, 1, 0),  # two decision cycles at one instant become one
        (histories.shared_devices_and_moves, 0, 0),
        (histories.borrow_and_reclaim, 3, 0),  # a first start that waits for the rest of its gang
        (histories.gang_over_two_nodes_with_a_cycle_cut_short, 31, 0),  # the writer was dead for 30 s
        (histories.cancelled_evictions, 1, 1),  # a cancellation came too late: in a simulation none does
    ],
    ids=lambda given: getattr(given, "__name__", str(given)),
)
def test_recorded_histories_are_reproduced_but_for_differences_that_have_a_name(tell, seconds: int, evicted_otherwise: int):
    found = compare_with(tell)
    for name, there in found.recorded.jobs.items():
        here = found.again.jobs[name]
        if there.first_start is not None:
            assert here.first_start is not None
            assert abs(here.first_start - there.first_start) <= seconds * SECOND, name
    assert same_policy(found)["jobs_with_other_evictions"] == evicted_otherwise


def urgent() -> Story:
    """One node. `slow` trains; `asks` takes its place; `slow` comes back; `again` is cancelled; `open` has not ended."""
    return play(
        "node n1: 8 gpus; runs slow: 8 gpus; +20m; submit asks: interactive, 8 gpus; +1s; propose; +1s; yields slow",
        "+1s; started asks; +1h; ends asks 0; +1s; started slow; +2h; ends slow 0; +1m; runs again: 4 gpus; +1m; cancel again",
        "+1s; yields again 143; +1m; runs open: 1 gpu; wait 1m",
    )


def test_without_preemption_the_urgent_job_waits_and_no_work_is_lost():
    comparison = compared(what_if(from_log(map(decode, urgent().wires)), ALLOCATE_ONLY))
    runs = {run["label"]: run for run in comparison["runs"]}
    assert runs["simulated"]["gpu_hours"]["lost"] == pytest.approx(8 * 1201 / 3600, rel=0.01)
    assert runs["other"]["gpu_hours"]["lost"] == 0
    (hurt,), (helped,) = comparison["worsened"], comparison["improved"]
    assert (hurt["job"], helped["job"]) == ("asks", "slow")
    assert hurt["time_lost_hours"] == pytest.approx((2 * HOUR - 20 * MINUTE) / HOUR, abs=0.01)  # what slow still had to do
    assert helped["evictions"] == [1, 0]
    assert comparison["groups"]["class interactive"]["other"]["waited_mean"] > 1


@pytest.mark.slow
def test_a_class_has_its_mean_and_its_95th_percentile():
    """One of 40 jobs of an hour waits longest, for 39 hours; 95 of 100 wait for 37 at most."""
    story = play("node n1: 1 gpu")
    for number in range(40):
        story.submit(f"job-{number:02}", gpus=1)
    for number in range(40):
        story.started(f"job-{number:02}")
        story.ends(f"job-{number:02}", 0, after=HOUR)
    compare_with = groups(what_if(from_log(map(decode, story.wires)), ALLOCATE_ONLY))["class train"]
    for run in compare_with.values():
        assert (round(run["waited_mean"], 1), round(run["waited_p95"], 1)) == (19.5, 37)


def test_a_job_waits_for_others_under_every_policy_also_for_one_that_bears_a_used_name():
    """`prep` has run before under the same name; `lost` is a job that the log does not have."""
    story = Story()
    story.node("n1", gpus=2)
    story.runs("prep", gpus=1)
    story.ends("prep", 0, after=MINUTE)
    story.cycle(facts.ClockAdvanced(), after=8 * 24 * HOUR)
    assert "prep" not in story.state.jobs
    story.runs("prep", gpus=1)
    story.cycle(story.submitted("next", gpus=1, after=(Dependency(job="prep"), Dependency(job="lost"))))
    story.ends("prep", 0, after=HOUR)
    story.started("next")
    story.ends("next", 0, after=MINUTE)
    log = from_log(map(decode, story.wires))
    found = what_if(log, ALLOCATE_ONLY)
    for run in (found.recorded, found.again, found.changed):
        (job,) = [each for name, each in run.jobs.items() if name.startswith("next")]
        assert job.first_start is not None
        assert job.first_start - job.submitted >= HOUR, run.label
    assumed = " ".join(log.assumptions)
    assert "1 job waited for other jobs (--after)" in assumed
    assert headline(found) == [
        "not simulated: a dependency (--after) on a job that the log does not have, 1 time; it counts as met"
    ]


@pytest.mark.slow
def test_the_headline_and_the_page_name_a_dependency_on_a_job_that_the_other_policy_rejects():
    story = Story()
    story.node("n1", gpus=1)
    story.runs("prep", gpus=1, cls="inference")
    story.cycle(story.submitted("next", gpus=1, after=(Dependency(job="prep"),)))
    story.ends("prep", 0, after=HOUR)
    story.started("next")
    story.ends("next", 0, after=MINUTE)
    classes = tuple(each for each in ALLOCATE_ONLY.priority_classes if each.name != "inference")
    found = what_if(from_log(map(decode, story.wires)), ALLOCATE_ONLY.model_copy(update={"priority_classes": classes}))
    rejected, unmet = headline(found)
    assert rejected.startswith("1 of 2 jobs rejected under the other policy")
    assert unmet == "not simulated: the dependency (--after) of 1 job on a rejected job, such as that of next; it counts as met"
    text = page(found, {"pool": "pool-a", "policy": "other", **compared(found)})
    assert escape(rejected) in text
    assert escape(unmet) in text
    assert "1 rejected: prep" in text.partition("Worsened most")[2]


def test_assumptions_are_reported():
    story = urgent()
    story.runs("open-too", gpus=1)
    assumed = " ".join(from_log(map(decode, story.wires)).assumptions)
    assert "2 jobs had not ended when the log ends" in assumed
    assert "1 job had been cancelled by a person" in assumed


def test_a_gpu_that_was_quarantined_is_so_under_every_policy():
    story = play(
        "node n1: 2 gpus; quarantined n1 0; +1m; submit waits: 2 gpus; wait 1h; cleared n1 0; +1s; started waits",
        "+1h; ends waits 0",
    )
    log = from_log(map(decode, story.wires))
    found = what_if(log, ALLOCATE_ONLY)
    assert same_policy(found)["waits_alike"] == 1
    assert found.changed.jobs["waits"].waited == HOUR + SECOND
    assert "a GPU was quarantined 1 time:" in " ".join(log.assumptions)


def test_a_pool_that_grows_is_never_more_than_full():
    story = play("node n1: 4 gpus; runs a: 4 gpus")
    story.cycle(after=HOUR)
    play("node n2: 12 gpus; runs b: 12 gpus; wait 1h", story=story)
    runs = what_if(from_log(map(decode, story.wires)), ALLOCATE_ONLY).runs
    assert [run.capacity for run in runs] == [[(story.records[0].time, 4000), (BEGIN + HOUR, 12_000)]] * 3
    assert [metrics(run)["utilisation"] for run in runs] == pytest.approx([1, 1, 1], abs=0.01)


def test_a_start_that_was_refused_is_refused_again():
    story = play(
        "node n1: 2 gpus; submit tries: 2 x 1 gpu, max_failures 2; +1s; report TaskStarted tries",
        '+1s; report TaskStartRefused tries task=1 reason="no such device"; +1s; ends tries 143 0',
    )
    story.wait(5 * MINUTE)  # its back-off
    story.started("tries", after=SECOND)
    story.ends("tries", 0, after=HOUR)
    log = from_log(map(decode, story.wires))
    found = what_if(log, ALLOCATE_ONLY)
    assert log.workload.outcomes["tries"].refused == ((1, 1),)
    assert story.job("tries").phase == found.again.jobs["tries"].outcome == found.changed.jobs["tries"].outcome == "succeeded"
    assert found.again.jobs["tries"].evictions == found.recorded.jobs["tries"].evictions != {}
    assert same_policy(found)["largest_difference_of_a_wait_s"] <= 2  # its first member was stopped 1 s later than it is there
    assert "1 job had a start refused by a node" in " ".join(log.assumptions)


def test_the_reaction_to_idle_gpus_follows_the_policy():
    """`lazy` does nothing for ten minutes, is paused, and taken up again by a person an hour later."""
    strict, lenient = (policy(idle={"after": after, "action": "pause"}) for after in ("10m", "2h"))
    story = Story(strict)
    play(
        "node n1: 8 gpus; runs lazy: 8 gpus; +20m; report TaskIdle lazy duration=1m; +1m; submit next: 8 gpus; wait 8m",
        "+1s; yields lazy; +1s; started next; +10m; ends next 0; +1h; resume lazy; +1s; started lazy; +1h; ends lazy 0",
        story=story,
    )
    log = from_log(map(decode, story.wires))
    found = what_if(log, lenient)
    assert same_policy(found)["jobs_with_other_evictions"] == 0
    assert found.recorded.jobs["lazy"].evictions == found.again.jobs["lazy"].evictions == {"paused": 1}
    assert found.changed.jobs["lazy"].evictions == {}
    assert found.changed.jobs["next"].waited > found.again.jobs["next"].waited
    assert "1 job had idle GPUs" in " ".join(log.assumptions)


def test_with_a_half_life_whoever_had_less_before_starts_more_at_once():
    """`vision` has all eight GPUs for four days; then `language` asks for eight, and gets four, or seven if the past counts."""
    projects = [{"name": "vision"}, {"name": "language"}]
    story = Story(policy(projects=projects))
    story.node("n1", gpus=8)
    for number in range(8):
        story.runs(f"v{number}", gpus=1, project="vision")
    story.wait(96 * HOUR)
    for number in range(8):
        story.submit(f"l{number}", gpus=1, project="language", after=SECOND)
    for _ in range(3):
        while story.state.selection is not None:
            story.propose()
        for name, job in list(story.state.jobs.items()):
            if job.phase == "evicting":
                story.yields(name, after=SECOND)
            elif job.phase == "starting":
                story.started(name, after=SECOND)
    for name in [name for name, job in story.state.jobs.items() if job.phase == "running"]:
        story.ends(name, 0, after=HOUR)
    found = what_if(from_log(map(decode, story.wires)), policy(projects=projects, fairness={"half_life": "7d"}))
    runs = (found.again, found.changed)
    at_once = [sum(run.jobs[f"l{number}"].waited_by(run.end) < MINUTE for number in range(8)) for run in runs]
    assert at_once == [4, 7]


def test_with_a_budget_whoever_has_used_it_waits_for_the_next_month():
    """`vision` runs four GPUs for ten hours each day: 40 GPU-hours are used on the first, and the rest is in February."""
    projects = [{"name": "vision"}]
    story = Story(policy(projects=projects))
    story.node("n1", gpus=4)
    story.wait(28 * DAY)
    for number in range(4):
        story.runs(f"v{number}", gpus=4, project="vision", after=14 * HOUR)
        story.ends(f"v{number}", 0, after=10 * HOUR)
    budgets = [{"name": "vision", "project": "vision", "gpu_hours": 40, "at_limit": "stop-admitting"}]
    log = from_log(map(decode, story.wires))
    found = what_if(log, policy(projects=projects, budgets=budgets))
    waited = {name: job.waited_by(found.changed.end) for name, job in found.changed.jobs.items()}
    assert (waited["v0"], waited["v1"]) == (0, 34 * HOUR), "from 30 January 14:00 until February"
    assert [found.changed.jobs[name].starts for name in ("v2", "v3")] == [0, 0], "v1 has used those of February"
    assert all(job.waited == 0 for job in found.again.jobs.values())
    enough = policy(projects=projects, budgets=[{**budgets[0], "gpu_hours": 1000}])
    assert all(job.waited == 0 for job in what_if(log, enough).changed.jobs.values())


def test_from_a_moment_on_only_what_came_after_differs():
    """The policy comes into force when the urgent job has its place already."""
    story = urgent()
    since = next(record.time for record in story.records if record.type.endswith("JobStarting.v1"))
    found = what_if(from_log(map(decode, story.wires)), ALLOCATE_ONLY, since=since + SECOND)
    assert found.changed.jobs["asks"].waited == found.again.jobs["asks"].waited
    assert not compared(found)["worsened"]


def test_a_name_that_comes_again_is_another_job():
    story = Story()
    story.node("n1", gpus=8)
    for _ in range(2):
        story.runs("nightly", gpus=1, after=MINUTE)
        story.ends("nightly", 0, after=MINUTE)
        story.wait(8 * 24 * HOUR)
        story.runs(f"tick-{story.time}", gpus=1)
    log = from_log(map(decode, story.wires))
    assert [name for name in log.recorded.jobs if name.startswith("nightly")] == ["nightly", "nightly.again-2"]
    assert same_policy(what_if(log, DEFAULT_POLICY))["waits_alike"] == 4


# --- the command


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(urgent(), tmp_path / "log.jsonl")


def written(policy: Policy, path: Path) -> Path:
    path.write_text(yaml.safe_dump(policy.model_dump(mode="json", exclude_defaults=True)))
    return path


@pytest.mark.slow
def test_the_command_prints_text_json_and_a_page(log: Path, tmp_path: Path):
    policy = written(ALLOCATE_ONLY, tmp_path / "nobody.yaml")
    page = tmp_path / "page.html"
    shown = bailiff("what-if", "--policy", policy, "--file", log, "--report", page)
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.output.split())
    assert "4 of 4 jobs were pending equally long, within 1 s; 1 eviction instead of 1, for 0 jobs" in text
    assert "1 job had not ended when the log ends" in text
    assert "(medians): a start 0ms, an exit without saving 1s, a release 0ms, a selection 1s" in text
    html = page.read_text()
    assert html.count("<svg") == 3
    assert "src=" not in html
    assert "<link" not in html
    data = json.loads(bailiff("what-if", "--policy", policy, "--file", log, "-o", "json").stdout)
    assert [job["job"] for job in data["worsened"]] == ["asks"]
    assert data["same_policy"]["jobs_with_other_evictions"] == 0


@pytest.mark.slow
def test_a_window_is_given_by_seqs_or_times(log: Path, tmp_path: Path):
    policy = written(ALLOCATE_ONLY, tmp_path / "nobody.yaml")
    data = json.loads(bailiff("what-if", "-p", policy, "-f", log, "-o", "json", "--to", "2026-01-01T00:30").stdout)
    assert data["to"] == BEGIN + 30 * MINUTE
    assert {run["jobs"] for run in data["runs"]} == {2}
    backwards = bailiff("what-if", "-p", policy, "-f", log, "--from", "20", "--to", "10")
    assert backwards.exit_code == 2
    assert "is not after" in backwards.output
    assert bailiff("what-if", "-p", policy, "-f", log, "--from", "9999").exit_code == 5
    early = bailiff("what-if", "-p", policy, "-f", log, "--to", "2020-01-01")
    assert (early.exit_code, "is before the beginning of the log" in early.output) == (5, True)
    assert "expected a record's number, a time as in" in bailiff("what-if", "-p", policy, "-f", log, "--to", "noon").output


def test_a_window_without_a_job_is_no_answer(tmp_path: Path):
    story = play("node n1: 8 gpus; +1h; runs a: 8 gpus")
    log = write_log(story, tmp_path / "late.jsonl")
    empty = bailiff("what-if", "-p", written(ALLOCATE_ONLY, tmp_path / "nobody.yaml"), "-f", log, "--to", "0")
    assert (empty.exit_code, "no job was in test between" in " ".join(empty.output.split())) == (5, True), empty.output


def test_a_policy_with_a_fault_is_refused_with_its_line(log: Path, tmp_path: Path):
    policy = "priority_classes:\n- name: train\n  value: 50\n  preemptable: true\n  global_default: true\n"
    (tmp_path / "odd.yaml").write_text(policy)
    refused = bailiff("what-if", "--policy", tmp_path / "odd.yaml", "--file", log)
    assert refused.exit_code == 2
    assert "odd.yaml:4" in refused.output


def test_a_folder_that_only_holds_a_log_says_which_file_to_name(log: Path, tmp_path: Path):
    refused = bailiff("what-if", "-p", written(ALLOCATE_ONLY, tmp_path / "nobody.yaml"), "--file", tmp_path)
    compare_with = "".join(refused.output.split())
    assert (refused.exit_code, f"namethefileinit:{log}" in compare_with) == (2, True), refused.output


def test_a_file_of_another_pool_is_not_taken_for_it(log: Path, tmp_path: Path):
    policy = written(ALLOCATE_ONLY, tmp_path / "nobody.yaml")
    refused = bailiff("what-if", "-p", policy, "--archive", log, "--pool", "other")
    assert refused.exit_code == 5
    assert "is a log of test, not of other" in " ".join(refused.output.split())
    assert bailiff("what-if", "-p", policy, "--archive", log, "--pool", "test", "-o", "json").exit_code == 0


TWO_PROJECTS = [{"name": "a", "quota": {"gpus": 4}}, {"name": "b", "quota": {"gpus": 4}}]


def older_than_its_projects() -> Story:
    """Two jobs from before there were projects, and one after."""
    return play(
        "rules {}; node n1: 4 gpus; runs old: 4 gpus; +1m; submit older: 4 gpus; +1h; ends old; started older",
        "policy {projects: [{name: a, quota: {gpus: 4}}, {name: b, quota: {gpus: 4}}]}; +1m; submit new: 4 gpus, project a",
        "+1h; ends older; started new; +1h; ends new",
    )


def test_jobs_older_than_the_projects_are_compared_without_one():
    story = older_than_its_projects()
    found = what_if(from_log(story.records), policy(projects=TWO_PROJECTS))
    assert dict(found.rejected) == {}
    assert [len(run.jobs) for run in found.runs] == [3, 3, 3]
    assert {name: job.waited_by(found.to) for name, job in found.changed.jobs.items()} == {
        name: job.waited_by(found.to) for name, job in found.again.jobs.items()
    }
    assert any(text.startswith("2 jobs without a project: under the other policy also without one") for text in found.assumptions)
    assert found.recorded.quotas == {"a": 4000, "b": 4000}


def test_a_policy_that_rejects_every_job_is_refused_with_the_reason():
    story = Story(policy(projects=TWO_PROJECTS))
    story.node("n1", gpus=4)
    story.runs("mine", gpus=4, project="a")
    story.ends("mine", after=HOUR)
    with pytest.raises(
        ClientError, match="rejects every job, so there is nothing to compare; the first is mine: there is no project 'a'"
    ):
        other_past("pool-a", story.records, policy(projects=[{"name": "c"}]), None, None, lambda *_: None)
