"""Histories of other schedulers. What cannot be read is named and counted, never guessed."""

import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from bailiff_core.model.policy import Policy
from bailiff_sim.engine import Simulation
from bailiff_sim.history import kubernetes, kueue, slurm, slurm_config, slurm_values, table
from bailiff_sim.history.folder import read_jobs, read_manifest
from bailiff_sim.history.importing import Assumptions, import_history
from bailiff_sim.history.records import HOUR, SECOND, AttemptRow, HistoryJob, Site, Skipped, Source, Tier
from bailiff_sim.history.values import Unreadable, elapsed, zone
from bailiff_sim.traces.catalogue import cluster, trace
from bailiff_sim.workload_builder import Choices, assemble

FILES = Path(__file__).parent / "history_files"
SLURM = Path(__file__).parents[2] / "slurm" / "recorded"
BERLIN = zone("Europe/Berlin")
MINUTE = 60 * SECOND
HEAD = "JobID|JobName|User|Account|Partition|QOS|Submit|Start|End|Elapsed|State|AllocTRES|NodeList"


def imported(
    source: Source, folder: Path, every: int | None = 30 * MINUTE
) -> tuple[dict[str, HistoryJob], dict[str, Any], list[str]]:
    """Jobs by id, the recorded figures, and the lines that cannot be read."""
    bad: list[str] = []
    history = import_history(source, folder, Assumptions(every), lambda line: bad.append(str(line)))
    assert history == read_manifest(folder)
    return {job.name: job for job in read_jobs(folder)}, dict(history.recorded), bad


def sacct(tmp_path: Path, *lines: str, head: str = HEAD, **options: Any) -> Source:
    file = tmp_path / "sacct.txt"
    file.write_text("\n".join([head, *lines]) + "\n")
    return slurm.read([file], Site("Slurm"), slurm.Options(**options))


def line(
    job: str, start: str, end: str, state: str = "COMPLETED", tres: str = "gres/gpu=2,node=1", name: str = "n", at: str = "00:00"
) -> str:
    return f"{job}|{name}|ada|vision|low|normal|2026-03-01T{at}:00|{start}|{end}||{state}|{tres}|gpu[01-02]"


def at(hour: int) -> str:
    return f"2026-03-01T{hour:02d}:00:00"


# --- Slurm


def test_what_a_real_slurm_printed_is_read(tmp_path: Path) -> None:
    """tests/slurm made these files: a job of 8 GPUs preempted four, of which one was cancelled and three were requeued."""
    site = slurm_config.site(SLURM / "slurm.conf", None, SLURM / "qos.txt", SLURM / "assoc.txt", "partition")
    options = slurm.Options(BERLIN, tier=slurm_config.tier_column(SLURM / "slurm.conf"))
    jobs, found, bad = imported(slurm.read([SLURM / "sacct.txt"], site, options), tmp_path)
    assert bad == []
    assert (found["jobs"], found["preemptions"], found["jobs_preempted"], found["preempted_and_not_back"]) == (9, 4, 4, 1)
    assert [attempt.state for attempt in jobs["1"].attempts] == ["preempted", "succeeded"]
    assert (jobs["1"].gpus, jobs["1"].model, jobs["1"].limit, jobs["1"].tier) == (4, "a100", 60 * MINUTE, "low")
    assert {"3_1", "3_2", "3_3", "3_4", "13"} < set(jobs)
    assert jobs["13"].attempts[-1].state == "running"
    pairs = {(pair["preemptor_class"], pair["victim_class"], pair["inferred"]) for pair in found["pairs"]}
    assert pairs == {("high", "low", True), ("high", "cancel", True)}
    manifest = read_manifest(tmp_path)
    assert [(each.name, each.gpus, each.model) for each in manifest.machines] == [("gpu01", 8, "a100")]
    assert manifest.tiers["high"].value == 10
    assert not manifest.tiers["high"].preemptible
    assert manifest.projects["vision"].gpu_limit == 6
    assert manifest.left_out == {"job steps": 12, "never started": 2}


def test_cpus_memory_eligibility_and_parents_as_slurm_22_05_prints_them(tmp_path: Path) -> None:
    """tests/slurm made these files, too: CR_CPU_Memory, the accounts of a tree, and job 4, which depends on job 1."""
    site = slurm_config.site(SLURM / "slurm.conf", None, None, SLURM / "assoc-parents.txt", "partition")
    jobs, found, bad = imported(slurm.read([SLURM / "sacct-cpus.txt"], site, slurm.Options(BERLIN, tier="partition")), tmp_path)
    assert (bad, found["preemptions"]) == ([], 4)
    assert (jobs["1"].cpu_milli, jobs["1"].memory_bytes) == (8000, 2000 << 20)
    dependent = next(job for job in jobs.values() if job.gpus == 1 and "_" not in job.name)
    assert dependent.submitted >= jobs["1"].attempts[-1].end  # type: ignore[operator]
    manifest = read_manifest(tmp_path)
    assert {name: project.parent for name, project in manifest.projects.items()} == {
        "research": "",
        "speech": "research",
        "vision": "",
    }
    assert manifest.projects["vision"].gpu_limit == 6


def test_accounts_are_a_tree_of_projects_where_sacctmgr_says_who_is_below_whom(tmp_path: Path) -> None:
    assoc = tmp_path / "assoc.txt"
    assoc.write_text(
        "Account|Par Name|User|Partition|Share|GrpTRES\n"
        "root||||1|\nresearch|root|||2|gres/gpu=6\nvision|research|||3|\nvision||ada||1|\nshop|gone|||1|\n"
    )
    site = slurm_config.site(SLURM / "slurm.conf", None, None, assoc, "partition")
    imported(slurm.read([SLURM / "sacct.txt"], site, slurm.Options(BERLIN, tier="partition")), tmp_path / "out")
    policy = Policy.model_validate(yaml.safe_load((tmp_path / "out/policy.yaml").read_text()), strict=False)
    assert {project.name: project.parent for project in policy.projects} == {
        "default": None,
        "research": None,
        "vision": "research",
        "shop": None,
    }


def test_suspensions_are_named_and_in_no_figure(tmp_path: Path) -> None:
    """With PreemptMode=SUSPEND the preempted job is no attempt of its own: sacct has only how long it was suspended."""
    head = HEAD.replace("|State|", "|Suspended|State|")
    row = f"1|n|ada|vision|low|normal|{at(0)}|{at(0)}|{at(4)}|03:00:00|01:00:00|COMPLETED|gres/gpu=2,node=1|gpu01"
    jobs, found, bad = imported(sacct(tmp_path, row, head=head), tmp_path / "out")
    assert bad == []
    assert (found["preemptions"], jobs["1"].attempts[0].work) == (0, 3 * HOUR)
    assert "why 1 rows were suspended, 2.0 GPU-hours in all" in " ".join(read_manifest(tmp_path / "out").certainty)
    conf = tmp_path / "slurm.conf"
    conf.write_text("PreemptMode=SUSPEND,GANG\nNodeName=gpu01 Gres=gpu:2\nPartitionName=low Nodes=gpu01 PriorityTier=1\n")
    assert "preemptions in the partition low (PreemptMode=SUSPEND)" in " ".join(
        slurm_config.site(conf, None, None, None, "partition").unknown
    )


def test_a_file_without_header_needs_its_columns(tmp_path: Path) -> None:
    file = SLURM / "sacct-without-header.txt"
    with pytest.raises(ValueError, match=r"sacct-without-header.txt:1: expected the header of sacct .* with --fields"):
        imported(slurm.read([file], Site("Slurm"), slurm.Options(BERLIN)), tmp_path)
    fields = [each for each in slurm.FIELDS if each != "Eligible"]
    fields.insert(fields.index("State") + 1, "ExitCode")
    jobs, found, bad = imported(slurm.read([file], Site("Slurm"), slurm.Options(BERLIN, fields=fields)), tmp_path)
    assert (len(jobs), found["preemptions"], bad) == (9, 4, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("123", ("123", 0, False, 1)),
        ("123_4", ("123_4", 0, False, 1)),
        ("123_[5-9%2]", ("123", 0, False, 5)),
        ("123_[1,3,7-8]", ("123", 0, False, 4)),
        ("123+1", ("123", 1, False, 1)),
        ("123.batch", ("123", 0, True, 1)),
        ("123_4.extern", ("123_4", 0, True, 1)),
        ("123+1.0", ("123", 1, True, 1)),
    ],
)
def test_job_ids(text: str, expected: tuple[object, ...]) -> None:
    found = slurm_values.job_id(text)
    job = found.job if "[" not in text else text.partition("_")[0]
    assert (job, *found[1:]) == expected


def test_values_of_slurm() -> None:
    assert slurm_values.nodes("gpu[01-04,7],cpu1") == ("gpu01", "gpu02", "gpu03", "gpu04", "gpu7", "cpu1")
    assert slurm_values.nodes("r[1-2]n[1-2]") == ("r1n1", "r1n2", "r2n1", "r2n2")
    assert slurm_values.nodes("None assigned") == ()
    assert slurm_values.tres("cpu=8,gres/gpu:a100=4,gres/gpu=4,node=2") == (4, "a100", 2)
    assert slurm_values.tres("gres/gpu:a100=4,gres/gpu:v100=2") == (6, "", None)
    assert slurm_values.tres("cpu=8,node=1").number == 0
    assert slurm_values.gres("gpu:a100:8(S:0-1),gpu:2,shard:4") == (10, "a100", None)
    assert elapsed("1-02:03:04") == ((26 * 60 + 3) * 60 + 4) * SECOND
    assert elapsed("03:04") == 184 * SECOND
    assert slurm_values.state("CANCELLED by 1000") == "cancelled"
    assert [slurm_values.state(each) for each in ("PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY")] == ["preempted", "lost", "failed"]
    assert slurm_values.time_limit("UNLIMITED") is None
    assert slurm_values.time_limit("90") == slurm_values.time_limit("01:30:00") == 90 * MINUTE
    assert slurm_values.cpus_and_memory("billing=4,cpu=8,mem=62.50G") == (8000, 125 << 29)
    assert slurm_values.cpus_and_memory("cpu=1,mem=100000M") == (1000, 100_000 << 20)
    assert slurm_values.cpus_and_memory("gres/gpu=4") == (0, 0)
    with pytest.raises(Unreadable, match="expected memory such as mem=64000M, found 'mem=much'"):
        slurm_values.cpus_and_memory("mem=much")
    for wrong in ("gpu[01-", "gpu[4-1]", "gpu[1-999999]", "gpu01;rm"):
        with pytest.raises(Unreadable):
            slurm_values.nodes(wrong)


def test_bad_lines_are_named_and_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    jobs, _, bad = imported(
        sacct(
            tmp_path,
            line("1", at(1), at(2)),
            line("x1", at(1), at(2)),
            line("2", "soon", at(2)),
            line("3", at(1), "Unknown"),
            line("4", at(2), at(1)),
            line("5", at(1), at(2), "SLEEPING"),
            line("6", at(1), at(2), tres="gres/gpu=many"),
            "7|too|short",
            line("8", at(1), at(2), name="a|b|c"),
        ),
        tmp_path,
    )
    assert sorted(jobs) == ["1", "8"]
    assert [text.split(": expected")[0].split(": the job")[0] for text in bad] == [
        *("sacct.txt:3: jobid", "sacct.txt:4: start", "sacct.txt:5: end", "sacct.txt:6: end", "sacct.txt:7: state"),
        *("sacct.txt:8: alloctres", "sacct.txt:9: line"),
    ]
    assert bad[4].endswith("expected a state of Slurm, such as COMPLETED, found 'SLEEPING'")
    assert read_manifest(tmp_path).bad_lines == 7


def test_a_delimiter_in_a_name_is_only_resolved_where_one_column_is_free_text(tmp_path: Path) -> None:
    head = HEAD + "|Comment"
    _, _, bad = imported(
        sacct(tmp_path, line("1", at(1), at(2)) + "|c", line("2", at(1), at(2), name="a|b") + "|c", head=head), tmp_path
    )
    assert bad == [
        "sacct.txt:3: line: expected 14 values, found 15: a value contains the delimiter, use --delimiter with sacct and here"
    ]
    jobs, _, bad = imported(
        sacct(tmp_path, line("1", at(1), at(2)).replace("|", ";;"), head=HEAD.replace("|", ";;"), delimiter=";;"), tmp_path
    )
    assert (list(jobs), bad) == (["1"], [])


def test_requeues_heterogeneous_jobs_and_numbers_used_again(tmp_path: Path) -> None:
    jobs, found, _ = imported(
        sacct(
            tmp_path,
            line("1", at(8), at(9), at="07:00"),  # the number 1 again, before its first use in the file
            line("1", at(2), at(4), "NODE_FAIL", at="01:00"),
            line("1", at(5), at(6), "COMPLETED", at="04:30"),
            line("2+0", at(1), at(3)),
            line("2+1", at(1), at(3), tres="gres/gpu=4,node=2"),
        ),
        tmp_path,
        every=HOUR,
    )
    assert [attempt.state for attempt in jobs["1"].attempts] == ["lost", "succeeded"]
    assert [attempt.state for attempt in jobs["1.2"].attempts] == ["succeeded"]
    assert (jobs["2"].gpus, jobs["2"].node_count, len(jobs["2"].attempts)) == (6, 3, 1)
    assert found["ended_by_a_machine"] == 1
    runs = {job.name: job.run_time for job in trace(f"history:{tmp_path}").jobs}
    assert runs == {"job-1": 3 * HOUR, "job-1.2": HOUR, "job-2": 2 * HOUR}  # two hours were saved before the node failed


def test_the_older_file_had_the_job_running_and_the_newer_one_its_end(tmp_path: Path) -> None:
    running = line("1", at(1), "Unknown", "RUNNING").replace("||RUNNING", "|01:00:00|RUNNING")
    jobs, found, bad = imported(sacct(tmp_path, running, line("1", at(1), at(5))), tmp_path)
    assert (bad, found["still_running"], jobs["1"].attempts[0].work) == ([], 0, 4 * HOUR)


def test_local_times_are_those_of_the_zone_also_when_the_clock_is_set_back(tmp_path: Path) -> None:
    times = "2026-10-25T01:00:00|2026-10-25T01:30:00|2026-10-25T02:30:00|02:00:00"
    row = f"1|n|ada|vision|low|normal|{times}|COMPLETED|gres/gpu=1|gpu01"
    jobs, _, bad = imported(sacct(tmp_path, row, timezone=BERLIN), tmp_path)
    assert (bad, jobs["1"].attempts[0].end) == ([], jobs["1"].attempts[0].start + 2 * HOUR)  # type: ignore[operator]


def test_loss_depends_on_the_checkpoint_interval(tmp_path: Path) -> None:
    rows = (line("1", at(1), "2026-03-01T02:45:00", "PREEMPTED"), line("1", at(3), at(4), at="02:45"))
    _, half_hour, _ = imported(sacct(tmp_path, *rows), tmp_path)
    assert half_hour["gpu_hours_lost"] == pytest.approx(2 * 0.25)
    _, never, _ = imported(sacct(tmp_path, *rows), tmp_path, every=None)
    assert never["gpu_hours_lost"] == never["gpu_hours_preempted"] == pytest.approx(2 * 1.75)


def test_no_preemption_on_record_counts_as_unknown(tmp_path: Path) -> None:
    imported(sacct(tmp_path, line("1", at(1), at(2))), tmp_path)
    assert any("whether anything was preempted" in each for each in read_manifest(tmp_path).certainty)


def test_jobs_have_the_cpus_and_memory_that_slurm_gave_them(tmp_path: Path) -> None:
    """Two jobs of half the GPUs do not fit beside each other where each has more than half the CPUs."""
    conf = tmp_path / "slurm.conf"
    conf.write_text("NodeName=gpu[01-02] Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=200000 Gres=gpu:4\n")
    file = tmp_path / "sacct.txt"
    tres = "cpu=40,mem=62.50G,gres/gpu=4,node=2"
    rows = [
        line("1", at(1), at(3), tres=tres),
        line("2", at(3), at(5), tres=tres, at="00:30"),
        line("3", at(1), at(2), tres="cpu=9"),
    ]
    file.write_text("\n".join([HEAD, *rows]) + "\n")
    source = slurm.read([file], slurm_config.site(conf, None, None, None), slurm.Options())
    jobs, _, bad = imported(source, tmp_path / "out")
    assert bad == []
    assert (jobs["1"].cpu_milli, jobs["1"].memory_bytes) == (40_000, 125 << 29)
    manifest = read_manifest(tmp_path / "out")
    assert [(each.cpu_milli, each.memory_bytes >> 20) for each in manifest.machines] == [(32_000, 200_000)] * 2
    assert (
        "not simulated: 1 job without a GPU, and the CPUs and memory that they used beside the others" in manifest.not_simulated
    )
    workload = assemble(trace(f"history:{tmp_path / 'out'}"), cluster(f"history:{tmp_path / 'out'}"), Choices(), 0)
    (group,) = next(job for _, job in workload.demands() if job.job == "job-1").tasks
    assert (group.count, group.gpu_milli, group.cpu_milli, group.memory_bytes) == (2, 2000, 20_000, 125 << 28)
    policy = Policy.model_validate(yaml.safe_load((tmp_path / "out/policy.yaml").read_text()), strict=False)
    result = Simulation(workload, policy).run()
    assert result.jobs["job-2"].waited > 0


def test_machines_hold_at_least_the_cpus_that_were_in_use_there(tmp_path: Path) -> None:
    rows = [line(str(each), at(1), at(2), tres="cpu=30,gres/gpu=2,node=2") for each in range(3)]
    imported(sacct(tmp_path, *rows), tmp_path / "seen")
    assert [each.cpu_milli for each in read_manifest(tmp_path / "seen").machines] == [45_000] * 2
    conf = tmp_path / "slurm.conf"
    conf.write_text("NodeName=gpu[01-02] CPUs=40 Gres=gpu:4\n")
    site = slurm_config.site(conf, None, None, None)
    imported(slurm.read([tmp_path / "sacct.txt"], site, slurm.Options()), tmp_path / "configured")
    manifest = read_manifest(tmp_path / "configured")
    assert [each.cpu_milli for each in manifest.machines] == [45_000] * 2
    assert any("the CPUs or memory of 2 machines" in each for each in manifest.certainty)


def test_a_job_that_waited_for_another_arrives_when_it_became_eligible(tmp_path: Path) -> None:
    head = HEAD.replace("|Start|", "|Eligible|Start|")
    row = f"1|n|ada|vision|low|normal|{at(0)}|{at(2)}|{at(3)}|{at(4)}||COMPLETED|gres/gpu=2,node=1|gpu01"
    _, found, bad = imported(sacct(tmp_path, row, head=head), tmp_path / "out")
    assert (bad, found["waiting"]["all"]["mean"]) == ([], 1.0)
    assert "in 1 row a job became eligible more than a minute after" in " ".join(read_manifest(tmp_path / "out").not_simulated)
    _, found, _ = imported(sacct(tmp_path, row.replace(f"|{at(2)}|", "|", 1)), tmp_path / "without")
    assert found["waiting"]["all"]["mean"] == 3.0
    assert "no column Eligible" in " ".join(read_manifest(tmp_path / "without").not_simulated)


def test_a_file_without_gpu_counts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lacks the columns AllocTRES"):
        imported(sacct(tmp_path, "1|COMPLETED|a|b|c", head="JobID|State|Submit|Start|End"), tmp_path)


def test_slurm_conf_with_defaults_continuations_and_gres_conf(tmp_path: Path) -> None:
    conf, gres = tmp_path / "slurm.conf", tmp_path / "gres.conf"
    conf.write_text(
        "PreemptType=preempt/partition_prio  # by partition\nPreemptMode=REQUEUE\nInclude extra.conf\n"
        "NodeName=DEFAULT CPUs=64 \\\n RealMemory=1000\nnodename=a[1-2] Gres=gpu:h100:4\nNodeName=b1 Gres=gpu:2\n"
        "NodeName=c1 Gres=gpu\nNodeName=cpu1\nPartitionName=DEFAULT PriorityTier=5\nPartitionName=low Nodes=a[1-2]\n"
        "PartitionName=top Nodes=ALL PriorityTier=9 PreemptMode=OFF\n"
    )
    gres.write_text("NodeName=c1 Name=gpu Type=v100 File=/dev/nvidia[0-3]\n")
    site = slurm_config.site(conf, gres, None, None, "partition")
    assert [(each.name, each.gpus, each.model, each.cpu_milli) for each in site.machines] == [
        ("a1", 4, "h100", 64_000),
        ("a2", 4, "h100", 64_000),
        ("b1", 2, "gpu", 64_000),
        ("c1", 1, "gpu", 64_000),
    ]
    assert {name: (tier.value, tier.preemptible) for name, tier in site.tiers.items()} == {"low": (5, True), "top": (9, False)}
    assert any("extra.conf" in each for each in site.unknown)
    conf.write_text("PartitionName=low PriorityTier=high\n")
    with pytest.raises(ValueError, match=r"slurm.conf:1: PriorityTier: expected a whole number, found 'high'"):
        slurm_config.site(conf, None, None, None, "partition")


def rows_of_many(count: int) -> Any:
    for number in range(count):
        yield AttemptRow(
            str(number), number * SECOND, number * SECOND, (number + 60) * SECOND, "succeeded", 1, nodes=("a",), tier="t"
        )
        yield Skipped("job steps")


@pytest.mark.slow
def test_many_rows_are_not_kept_in_memory(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        tracemalloc.start()
        imported_count = import_history(Source(Site("Slurm"), rows_of_many(count)), tmp_path, Assumptions(None), print).recorded[
            "jobs"
        ]
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert imported_count == count
        return used

    peak(100)
    assert peak(3_000) < peak(500) + 1_000_000


# --- Kueue and Kubernetes


def test_workloads_of_both_versions_with_their_events(tmp_path: Path) -> None:
    jobs, found, bad = imported(kueue.Reader().read([FILES / "kueue.json"]), tmp_path)
    assert bad == []
    train, sweep = jobs["vision/job-train-a1b2c"], jobs["vision/job-sweep-g5h6i"]
    assert [(attempt.state, attempt.work) for attempt in train.attempts] == [("preempted", 2 * HOUR), ("succeeded", 4 * HOUR)]
    assert [(attempt.state, attempt.start) for attempt in sweep.attempts] == [("preempted", None)]
    assert (found["preemptions"], found["preemptions_of_unknown_length"], found["preempted_and_not_back"]) == (2, 1, 1)
    assert [(pair["preemptor_class"], pair["victim_class"], pair["inferred"]) for pair in found["pairs"]] == [
        ("high", "low", False)
    ]
    assert (jobs["vision/job-serve-d3e4f"].gpus, jobs["vision/job-serve-d3e4f"].node_count) == (8, 2)
    history = read_manifest(tmp_path)
    assert (history.projects["vision-cq"].gpu_quota, history.tiers["high"].value) == (8, 1000)
    assert any("when 1 attempt began" in each for each in history.certainty)


def test_preemptions_that_kueue_counts_but_does_not_date(tmp_path: Path) -> None:
    document = json.loads((FILES / "kueue.json").read_text())
    document["items"] = [each for each in document["items"] if each["kind"] != "Event"]
    document["items"][0]["status"]["schedulingStats"]["evictions"][0]["count"] = 3
    file = tmp_path / "workloads.json"
    file.write_text(json.dumps(document))
    jobs, found, _ = imported(kueue.Reader().read([file]), tmp_path)
    assert [each.state for each in jobs["vision/job-train-a1b2c"].attempts] == ["preempted"] * 3 + ["succeeded"]
    assert found["preemptions_of_unknown_length"] == 4


def test_workloads_as_an_api_server_with_kueues_own_types_returns_them(tmp_path: Path) -> None:
    """The objects were created on a real API server with the CRDs of Kueue 0.17.0, under strict validation, and read by kubectl.

    Kueue itself did not run: the conditions, Events and messages are written as its code and tests have them.
    """
    jobs, found, bad = imported(kueue.Reader().read([FILES / "kueue-0.17-workloads.json"]), tmp_path)
    assert bad == []
    assert [(attempt.state, attempt.work) for attempt in jobs["vision/job-train-a1b2c"].attempts] == [
        ("preempted", 3590 * SECOND),
        ("succeeded", 2 * HOUR),
    ]
    assert (jobs["vision/job-serve-d3e4f"].gpus, jobs["vision/job-serve-d3e4f"].node_count) == (8, 2)
    assert [(pair["preemptor_class"], pair["victim_class"], pair["inferred"]) for pair in found["pairs"]] == [
        ("high", "low", False)
    ]
    history = read_manifest(tmp_path)
    assert (history.projects["vision-cq"].gpu_quota, history.tiers["high"].value) == (8, 1000)


def test_pods_preempted_by_kube_scheduler(tmp_path: Path) -> None:
    jobs, found, bad = imported(kubernetes.Reader().read([FILES / "pods.json", FILES / "audit.log"]), tmp_path)
    assert bad == []
    assert [attempt.state for attempt in jobs["vision/train/0"].attempts] == ["preempted", "succeeded"]
    assert [(pair["preemptor_class"], pair["victim_class"], pair["inferred"]) for pair in found["pairs"]] == [
        ("high", "low", False)
    ]
    assert "vision/rank/0" in jobs
    assert any("GPUs and run times of 1 preempted pod: only an Event" in each for each in read_manifest(tmp_path).certainty)


REAL = FILES / "kubernetes-1.37-list.json", FILES / "kubernetes-1.37-watch.json"
"""Output of kubectl from a Kubernetes 1.37.2: its own API server, controllers and scheduler; two nodes of 4 GPUs played by kwok.

Made by `kubectl get pods,jobs,events,nodes,priorityclasses -A -o json`, and by `kubectl get pods -A --watch -o json`, while an
indexed Job ran on both nodes and a Pod of a higher PriorityClass took one of them.
"""


def test_a_preemption_that_a_real_kubernetes_has_recorded(tmp_path: Path) -> None:
    jobs, found, bad = imported(kubernetes.Reader().read(REAL), tmp_path)
    assert bad == []
    assert set(jobs) == {"search/serve-0", "vision/train/0", "vision/train/1"}
    assert [attempt.state for attempt in jobs["vision/train/1"].attempts] == ["preempted", "running"]
    assert [(pair["preemptor_class"], pair["victim_class"], pair["inferred"]) for pair in found["pairs"]] == [
        ("inference", "train", False)
    ]
    first, second = jobs["vision/train/1"].attempts
    serve = jobs["search/serve-0"]
    assert first.end is not None
    assert first.end - first.start == 23 * SECOND
    assert second.start > serve.attempts[0].start >= first.end - SECOND  # times of Kubernetes are whole seconds
    assert {each.gpus for each in jobs.values()} == {4}
    history = read_manifest(tmp_path)
    assert (history.tiers["train"].value, history.tiers["inference"].value) == (100, 1000)
    assert [machine.gpus for machine in history.machines] == [4, 4]


def test_of_the_list_alone_a_real_preemption_is_known_and_its_cost_is_not(tmp_path: Path) -> None:
    jobs, found, bad = imported(kubernetes.Reader().read(REAL[:1]), tmp_path)
    assert (bad, found["preemptions"], set(jobs)) == ([], 0, {"search/serve-0", "vision/train/0"})
    certainty = " ".join(read_manifest(tmp_path).certainty)
    assert "GPUs and run times of 1 preempted pod: only an Event is left" in certainty
    assert "the record shows no preemption" not in certainty


def test_without_the_audit_log_the_preempted_pod_is_reported_as_unknown(tmp_path: Path) -> None:
    jobs, found, _ = imported(kubernetes.Reader().read([FILES / "pods.json"]), tmp_path)
    assert (len(jobs["vision/train/0"].attempts), found["preemptions"]) == (1, 0)
    assert any("GPUs and run times of 2 preempted pods" in each for each in read_manifest(tmp_path).certainty)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda pod: pod["metadata"].pop("creationTimestamp"), "metadata.creationTimestamp: expected a time, found nothing"),
        (lambda pod: pod["spec"]["containers"][0]["resources"]["limits"].update({"nvidia.com/gpu": "all"}), "found"),
        (lambda pod: pod.update(spec=None), "expected the form of the API"),
    ],
)
def test_objects_that_cannot_be_read_are_named(tmp_path: Path, change: Any, expected: str) -> None:
    document = json.loads((FILES / "pods.json").read_text())
    pod = document["items"][0]
    pod["spec"]["containers"][0]["resources"].pop("requests")
    change(pod)
    file = tmp_path / "pods.json"
    file.write_text(json.dumps(document))
    _, _, bad = imported(kubernetes.Reader().read([file]), tmp_path)
    assert len(bad) == 1
    assert bad[0].startswith("pods.json: object 1: Pod vision/train-x2: ")
    assert expected in bad[0]


def test_json_that_is_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    text = (FILES / "pods.json").read_text()
    file = tmp_path / "pods.json"
    file.write_text(text[: len(text) // 2])
    jobs, _, bad = imported(kubernetes.Reader().read([file]), tmp_path)
    assert jobs
    assert "not JSON" in bad[0]


def test_json_that_is_nested_too_deeply_is_a_bad_line(tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    file.write_text("[" * 200_000)
    jobs, _, bad = imported(kubernetes.Reader().read([FILES / "pods.json", file]), tmp_path)
    assert jobs
    assert "deep.json: object 1" in bad[-1]
    assert "nested too deeply" in bad[-1]


# --- tables


def test_a_table_with_a_mapping(tmp_path: Path) -> None:
    jobs, found, bad = imported(table.read(FILES / "jobs.csv", table.mapping(FILES / "mapping.yaml")), tmp_path)
    assert bad == ["jobs.csv:6: start_ts: expected a time such as 2026-03-01T12:00:00, found 'yesterday'"]
    assert [attempt.state for attempt in jobs["j1"].attempts] == ["preempted", "succeeded"]
    assert (jobs["j3"].gpus, jobs["j3"].gpu_milli) == (1, 500)
    assert [(pair["preemptor_project"], pair["victim_project"]) for pair in found["pairs"]] == [("speech", "vision")]
    assert [machine.gpus for machine in cluster(f"history:{tmp_path}")] == [8]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("columns: {job: id}", "columns: expected also submitted, started, gpus, ended or run_time"),
        ("colums: {}", "colums: expected no such field"),
        ("columns: {job: a, gpu: b}", "columns.gpu: expected 'job', 'submitted'"),
        ("[1]", "expected an object, found a list"),
        ("columns: {job: a, submitted: b, started: c, ended: d, gpus: e}\nstates: {X: gone}", "states.X: expected 'succeeded'"),
    ],
)
def test_a_mapping_with_a_fault_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "mapping.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=expected):
        table.mapping(file)


def test_the_folder_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    def written(folder: str) -> Sequence[bytes]:
        imported(table.read(FILES / "jobs.csv", table.mapping(FILES / "mapping.yaml")), tmp_path / folder)
        assert sorted(path.name for path in (tmp_path / folder).iterdir()) == ["history.json", "jobs.jsonl.gz", "policy.yaml"]
        return [path.read_bytes() for path in sorted((tmp_path / folder).iterdir())]

    assert written("a") == written("b")


@pytest.mark.parametrize(
    ("preempts", "pairs"),
    [
        ("high", {("high", "low")}),  # the table lets high preempt low: not the other low job that started first
        ("", set()),  # nobody may preempt low: the preemptor is not known
    ],
)
def test_a_preemptor_is_inferred_only_where_the_qos_table_permits_it(
    tmp_path: Path, preempts: str, pairs: set[tuple[str, str]]
) -> None:
    table = tmp_path / "qos.txt"
    table.write_text(f"Name|Priority|Preempt|PreemptMode\nlow|0||requeue\nhigh|10|{'low' if preempts else ''}|requeue\n")
    site = slurm_config.site(None, None, table, None)
    head = "JobIDRaw|User|Account|QOS|Submit|Start|End|State|AllocTRES|NodeList"
    rows = [
        f"1|ada|vision|low|{at(1)}|{at(1)}|{at(2)}|PREEMPTED|gres/gpu=2|gpu1",
        f"2|ada|vision|low|{at(1)}|{at(2)}|{at(3)}|COMPLETED|gres/gpu=1|gpu1",
        f"3|bob|speech|high|{at(2)}|{at(2)[:-2]}30|{at(3)}|COMPLETED|gres/gpu=1|gpu1",
    ]
    file = tmp_path / "sacct.txt"
    file.write_text("\n".join([head, *rows]) + "\n")
    _, found, bad = imported(slurm.read([file], site, slurm.Options(BERLIN)), tmp_path / "out")
    assert bad == []
    assert {(pair["preemptor_class"], pair["victim_class"]) for pair in found["pairs"]} == pairs
    assert read_manifest(tmp_path / "out").tiers["high"].preempts == (("low",) if preempts else ())


def test_without_a_table_a_job_is_not_preempted_by_an_equal_or_lower_one() -> None:
    site = Site("", tiers={"low": Tier(1), "high": Tier(2), "within": Tier(1, preempts=("within",)), "unknown": Tier()})
    known = ("low", "high", "within", "unknown")
    permitted = {(by, of) for by in known for of in known if not site.forbids(by, of)}
    anything = {("unknown", of) for of in known} | {(by, "unknown") for by in ("low", "high")}
    assert permitted == {("high", "low"), ("high", "within"), ("within", "within"), *anything}
