"""A real Slurm runs jobs and preempts some; what its own sacct prints is imported. And a million lines in bounded memory."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bailiff_sim.history import slurm, slurm_config
from bailiff_sim.history.folder import read_jobs
from bailiff_sim.history.importing import Assumptions, import_history
from bailiff_sim.history.values import zone

from .kit import Slurm, unpack

pytestmark = pytest.mark.long
LINES = 1_000_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Slurm]:
    missing = unpack(tmp_path)
    if missing:
        pytest.skip(missing)
    found = Slurm(tmp_path / "slurm", tmp_path / "root")
    try:
        found.start()
        yield found
    finally:
        found.stop()


@pytest.mark.timeout(900)
def test_what_slurm_itself_prints_is_imported_with_its_preemptions(cluster: Slurm, tmp_path: Path) -> None:
    def state(job: str) -> list[str]:
        return cluster.run("sacct", "--allocations", "--noheader", "--parsable2", "--format=State", f"--jobs={job}").split()

    go = tmp_path / "go"
    long = f"while [ ! -e {go} ]; do sleep 0.2; done"
    train = cluster.submit(
        "--partition=low",
        "--account=vision",
        "--gres=gpu:a100:4",
        "--job-name=train|a",
        "--time=60",
        "--cpus-per-task=8",
        "--mem=2000",
        script=long,
    )
    gone = cluster.submit("--partition=cancel", "--account=vision", "--gres=gpu:2", script="sleep 600")
    array = cluster.submit("--partition=low", "--account=speech", "--gres=gpu:1", "--array=1-2", script=long)
    after = cluster.submit("--partition=low", "--account=vision", "--gres=gpu:1", f"--dependency=afterok:{train}", script="true")
    cluster.until("all run", lambda: state(train) + state(gone) + state(array) == ["RUNNING"] * 4)
    urgent = cluster.submit("--partition=high", "--account=speech", "--qos=urgent", "--gres=gpu:8", script="sleep 2")
    cluster.until("the urgent job has run", lambda: state(urgent) == ["COMPLETED"])
    go.touch()
    cluster.until("the requeued jobs have ended", lambda: state(train) + state(array) + state(after) == ["COMPLETED"] * 4)

    fields = ",".join(slurm.FIELDS)
    files = {
        "sacct": ("sacct", "--allusers", "--duplicates", "--parsable2", f"--format={fields}"),
        "qos": ("sacctmgr", "show", "qos", "--parsable2"),
        "assoc": ("sacctmgr", "show", "assoc", "--parsable2", "format=Account,ParentName,User,Partition,Share,GrpTRES"),
    }
    for name, command in files.items():
        (tmp_path / name).write_text(cluster.run(*command))
    conf = cluster.at / "slurm.conf"
    tier = slurm_config.tier_column(conf)
    site = slurm_config.site(conf, cluster.at / "gres.conf", tmp_path / "qos", tmp_path / "assoc", tier)
    bad: list[object] = []
    source = slurm.read([tmp_path / "sacct"], site, slurm.Options(zone("Europe/Berlin"), tier=tier))
    history = import_history(source, tmp_path / "history", Assumptions(None), bad.append)
    assert bad == []
    jobs = {job.name: job for job in read_jobs(tmp_path / "history")}
    assert (jobs[train].cpu_milli, jobs[train].memory_bytes >> 20) == (8000, 2000)
    assert (jobs[urgent].cpu_milli, jobs[urgent].memory_bytes >> 20) == (1000, 500)
    assert jobs[after].submitted >= jobs[train].attempts[-1].end, "it arrives when Slurm found it eligible"  # type: ignore[operator]
    assert [(each.gpus, each.cpu_milli, each.memory_bytes >> 20) for each in history.machines] == [(8, 64_000, 100_000)]
    attempts = {job.name: [attempt.state for attempt in job.attempts] for job in jobs.values()}
    assert attempts == {
        train: ["preempted", "succeeded"],
        gone: ["preempted"],
        f"{array}_1": ["preempted", "succeeded"],
        f"{array}_2": ["preempted", "succeeded"],
        urgent: ["succeeded"],
        after: ["succeeded"],
    }
    assert history.recorded["preemptions"] == 4
    assert {tier: (found.value, found.preemptible) for tier, found in history.tiers.items()} == {
        "low": (1, True),
        "cancel": (1, True),
        "high": (10, False),
    }
    assert history.projects["vision"].gpu_limit == 6
    assert {name: found.parent for name, found in history.projects.items()} == {
        "vision": "",
        "research": "",
        "speech": "research",
    }


@pytest.mark.timeout(1800)
def test_a_million_lines_are_imported_in_bounded_memory(tmp_path: Path) -> None:
    file = tmp_path / "sacct.txt"
    with file.open("w") as out:
        out.write("JobID|JobName|User|Account|Partition|QOS|Submit|Start|End|State|AllocTRES|NodeList\n")
        for number in range(LINES):
            start, run = 1_770_000_000 + 20 * number, 3600 + number % 7200
            state = "PREEMPTED" if number % 50 == 0 else "COMPLETED"
            nodes = f"gpu{number % 200:03d}"
            out.write(f"{number}|n|u{number % 90}|a{number % 9}|p|q{number % 3}|{start - 60}|{start}|{start + run}|{state}|")
            out.write(f"gres/gpu={1 + number % 4},node=1|{nodes}\n")
    command = [sys.executable, "-m", "bailiff", "import", "slurm", file, "--out", tmp_path / "history", "--no-simulate"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{LINES:,} jobs with GPUs" in done.stdout or f"{LINES} jobs with GPUs" in done.stdout, done.stdout[:500]
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 400 * 1024  # KiB
