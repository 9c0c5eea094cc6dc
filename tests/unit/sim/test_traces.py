"""Traces: those that come with Bailiff read as their description says, those of a user are validated row by row."""

from collections import Counter
from pathlib import Path

import pytest
from tests.kits.sim_worlds import HOUR, MINUTE, SECOND, policy

from bailiff_sim.cluster import machines
from bailiff_sim.traces.catalogue import CLUSTERS, cluster, trace
from bailiff_sim.traces.published import SACCT
from bailiff_sim.traces.quotas import venus
from bailiff_sim.traces.rows import TraceProblem, shipped
from bailiff_sim.workload_builder import Choices, assemble, peak_demand, with_daily_quotas


@pytest.mark.parametrize(
    ("name", "jobs", "left_out"),
    [
        ("alibaba-openb-2023/default", 6203, {"without a GPU": 1088, "never scheduled": 861}),
        ("muri-philly-priority/trace1", 1494, {}),
        ("muri-philly-priority/trace4", 2638, {}),
        ("acme-kalos-sample", 319, {}),
        ("tiresias-60", 60, {}),
        ("azure-llm-inference-2023/code", 158, {}),
        pytest.param("philly-2017", 82_247, {}, marks=pytest.mark.long),
        pytest.param("chronus-philly-slo/MIX1", 30_756, {"without GPUs or run time": 184}, marks=pytest.mark.long),
        pytest.param("chronus-philly-slo/MIX2", 30_746, {"without GPUs or run time": 194}, marks=pytest.mark.long),
    ],
)
def test_a_trace_that_comes_with_bailiff_reads_whole(name: str, jobs: int, left_out: dict[str, int]) -> None:
    found = trace(name)
    assert (len(found.jobs), dict(found.left_out)) == (jobs, left_out)
    assert len({job.name for job in found.jobs}) == jobs
    assert all(found.tiers[job.tier] for job in found.jobs if job.tier), "each tier has a default class"


def test_openb_has_the_gpu_requests_that_its_paper_prints() -> None:
    """Table 1 of "Beware of Fragmentation" (ATC '23): % of tasks by GPUs asked for: 0, a part of one, 1, 2, 4, 8."""
    import csv
    import gzip

    source = shipped("alibaba-openb-2023", "openb_pod_list_default.csv.gz")
    with source.open("rb") as raw, gzip.open(raw, "rt") as text:
        rows = list(csv.DictReader(text))
    kinds = Counter("part" if row["num_gpu"] == "1" and int(row["gpu_milli"]) < 1000 else row["num_gpu"] for row in rows)
    found = [round(100 * kinds[kind] / len(rows), 1) for kind in ("0", "part", "1", "2", "4", "8")]
    assert found == [13.3, 37.8, 48.0, 0.2, 0.2, 0.5]


@pytest.mark.slow
def test_openb_at_its_own_times_never_contends_and_says_so() -> None:
    found = trace("alibaba-openb-2023/default")
    assert "66 GPUs" in found.notes[0]
    assert peak_demand(assemble(found, cluster("alibaba-openb-2023"), Choices(), 0)) < 80
    squeezed = assemble(found, machines("3x8"), Choices(compress=50_000), 0)
    assert peak_demand(squeezed) > 4 * squeezed.gpus


def test_gangs_are_as_few_tasks_as_the_machines_allow() -> None:
    found = trace("acme-kalos-sample")
    largest = max(found.jobs, key=lambda job: job.gpus)
    demands = {job.job: job for _, job in assemble(found, machines("302x8"), Choices(), 0).demands()}
    assert [(group.count, group.gpu_milli) for group in demands[largest.name].tasks] == [(128, 8000)]
    small = {job.job: job for _, job in assemble(found, machines("400x3"), Choices(), 0).demands()}
    assert [(group.count, group.gpu_milli) for group in small[largest.name].tasks] == [(341, 3000), (1, 1000)]


def test_choices_cut_compress_and_deal_classes_by_seed() -> None:
    found = trace("tiresias-60")
    some = assemble(found, machines("8x4"), Choices(first=10, compress=2000, mix={"inference": 50, "train": 50}), 3)
    again = assemble(found, machines("8x4"), Choices(first=10, compress=2000, mix={"inference": 50, "train": 50}), 3)
    assert some.events == again.events
    other = assemble(found, machines("8x4"), Choices(first=10, compress=2000, mix={"inference": 50, "train": 50}), 4)
    assert [job.priority_class for _, job in some.demands()] != [job.priority_class for _, job in other.demands()]
    assert some.events[1].time - some.events[0].time == 15 * SECOND
    with pytest.raises(ValueError, match="no job of tiresias-60"):
        assemble(found, machines("8x4"), Choices(skip=100 * HOUR), 0)


def test_machines_fail_by_chance_and_by_seed() -> None:
    found = trace("tiresias-60")
    one = assemble(found, machines("8x4"), Choices(mtbf=2 * HOUR), 1).events
    assert one == assemble(found, machines("8x4"), Choices(mtbf=2 * HOUR), 1).events
    assert one != assemble(found, machines("8x4"), Choices(mtbf=2 * HOUR), 2).events
    assert [each.time for each in one] == sorted(each.time for each in one)


def test_real_clusters_have_the_machines_that_their_papers_say() -> None:
    found = {
        name: (len(machines), sum(machine.gpus for machine in machines)) for name in CLUSTERS for machines in [cluster(name)]
    }
    assert found == {
        "alibaba-openb-2023": (1213, 6212),
        "alibaba-pai-2020": (1814, 6742),
        "alibaba-lingjun-2023": (847, 6776),
        "philly-2017": (552, 2490),
    }
    assert dict(cluster("alibaba-lingjun-2023:3")[0].labels) == {"dsw": "G6", "psw": "P10", "asw": "S14"}
    assert len(cluster("alibaba-pai-2020:100")) == 100
    with pytest.raises(ValueError, match=r"'eight' is not a cluster: .* or one of alibaba-openb-2023"):
        cluster("eight")


@pytest.mark.slow
def test_daily_quotas_of_venus_become_policies() -> None:
    days = venus(["large", "small"], 64)
    assert days[0][0] == 0
    assert 0 < days[0][1]["small"] <= days[0][1]["large"] <= 64
    found = trace("chronus-philly-slo/MIX1")
    workload = assemble(found, machines("8x8"), Choices(first=400, compress=1), 0)
    changed, first = with_daily_quotas(workload, policy())
    assert any(each.quota.gpu_milli for each in first.projects)
    assert len(changed.events) > len(workload.events)


def test_two_traces_together_begin_together() -> None:
    found = trace("tiresias-60+azure-llm-inference-2023/conv")
    serving = [job for job in found.jobs if job.tier == "serving"]
    assert len(found.jobs) == 60 + len(serving)
    assert min(job.submitted for job in serving) == min(job.submitted for job in found.jobs)


def test_every_bad_row_is_reported_with_file_line_column_and_value(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"
        "yesterday,66.0,1,66.0,11cb48\n"
        "2017-10-09 07:01:55,-3,1,66.0,11cb48\n"
        "2017-10-09 07:01:55,66.0,1.5,66.0,11cb48\n"
        "2017-10-09 07:01:55,66.0\n"
    )
    with pytest.raises(TraceProblem) as caught:
        trace(f"philly:{file}")
    assert str(caught.value).splitlines() == [
        "mine.csv:3: timestamp: expected a date and time such as 2017-10-09 07:01:55, found 'yesterday'",
        "mine.csv:4: duration: expected a time or duration, 0 or more, found '-3'",
        "mine.csv:5: num_gpus: expected a whole number, 0 or more, found '1.5'",
        "mine.csv:6: expected 5 values, found 2",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "mine.csv:1: expected the columns timestamp, duration, num_gpus, cluster; it lacks timestamp"),
        ("a,b\n1,2\n", "it lacks timestamp, duration, num_gpus, cluster, found a, b"),
        ("timestamp,duration,num_gpus,cluster\n", "no job with GPUs"),
        ("\x00\xff", "mine.csv"),
        ("timestamp,duration,num_gpus,cluster\n1507532515,60,1,c\n", "mine.csv:2: timestamp: expected a date and time"),
        ("timestamp,duration,num_gpus,cluster\n2017-10-09 07:01:55,60,1,\xff\n", "mine.csv: 'utf-8' codec can't decode"),
    ],
)
def test_a_file_that_is_no_trace_is_reported(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(TraceProblem, match=message):
        trace(f"philly:{file}")
    with pytest.raises(TraceProblem, match="no trace 'phily'"):
        trace("phily")


def test_slurms_accounting_is_read(tmp_path: Path) -> None:
    file = tmp_path / "jobs.txt"
    tres = "billing=64,cpu=64,gres/gpu:h100=16,gres/gpu=16,mem=512G,node=2"
    file.write_text(
        "|".join(SACCT) + "\n"
        f"101|ana|vision|gpu|high|2026-01-05T10:00:00|2026-01-05T10:20:00|2026-01-05T12:20:00|COMPLETED|{tres}\n"
        "102|ben|speech|gpu|normal|2026-01-05T10:05:00|Unknown|Unknown|PENDING|gres/gpu=1,node=1\n"
        "103|ben|speech|gpu|normal|2026-01-05T10:06:00|2026-01-05T10:06:00|2026-01-05T10:36:00|CANCELLED by 1001|"
        "gres/gpu:a100=4,node=1\n"
        "104|eva|speech|cpu|normal|2026-01-05T10:06:00|2026-01-05T10:06:00|2026-01-05T10:36:00|COMPLETED|cpu=4,node=1\n"
    )
    found = trace(f"slurm:{file}")
    first, second = found.jobs
    assert (first.gpus, first.per_task, first.run_time, first.project, first.tier) == (16, 8, 2 * HOUR, "vision", "high")
    assert (second.gpus, second.run_time, second.end) == (4, 30 * MINUTE, "cancelled")
    assert dict(found.left_out) == {"not ended, or never started": 1, "without a GPU": 1}
    file.write_text("|".join(SACCT) + "\n1|a|b|c|d|2026-01-05T10:00:00|2026-01-05T10:00:00|2026-01-05T10:00:00|ODD|gres/gpu=1\n")
    with pytest.raises(TraceProblem, match=r"jobs.txt:2: State: expected a state of Slurm"):
        trace(f"slurm:{file}")


def test_helios_acme_and_spot_are_read_as_published(tmp_path: Path) -> None:
    helios = tmp_path / "cluster_log.csv"
    helios.write_text(
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "1425512,uVMrF,vchbv,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n"
    )
    (job,) = trace(f"helios:{helios}").jobs
    assert (job.gpus, job.run_time, job.project, job.end) == (4, 249 * SECOND, "vchbv", "failed")
    acme = tmp_path / "trace_seren.csv"
    acme.write_text(
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
        "5778432,u5907,2,16,128,Pretrain,CANCELLED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,,117,32,936.0\n"
    )
    (job,) = trace(f"acme:{acme}").jobs
    assert (job.gpus, job.per_task, job.project, job.end) == (16, 8, "pretrain", "cancelled")
    spot = tmp_path / "job_info_df.csv"
    spot.write_text(
        "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"
        "j-1,7,A100,12,8,4,60,3600,HP\n"
        "j-2,7,A10,4,0.5,1,61,60,Spot\n"
    )
    large, part = trace(f"spot-2026:{spot}").jobs
    assert (large.gpus, large.per_task, large.tier) == (32, 8, "HP")
    assert (part.gpus, part.gpu_milli, part.tier) == (1, 500, "Spot")
    demands = [job for _, job in assemble(trace(f"spot-2026:{spot}"), machines("8x8"), Choices(), 0).demands()]
    assert [job.priority_class for job in demands] == ["inference", "train"]
    assert demands[1].tasks[0].gpu_share_milli == 500
    assert demands[1].tasks[0].gpu_models == (), "a cluster that has no such model is not asked for it"
    demands = [job for _, job in assemble(trace(f"spot-2026:{spot}"), machines("8x8xA100,1x8xA10"), Choices(), 0).demands()]
    assert [job.tasks[0].gpu_models for job in demands] == [("A100",), ("A10",)]
