"""Output for pools, classes and the cluster, and `bailiff pool create`."""

import json
from pathlib import Path

import pytest
from tests.unit.client.kit import AnsweringBus, LogWriter, Run, command_on, quiet_story

from bailiff.client.errors import ExitCode
from bailiff_core.model.policy import DEFAULT_POLICY, IdentityRules, PreemptionRules
from bailiff_service.settings import read_pools


def cells(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines() if line.strip()]


def test_pools_show_disabled_actions(bailiff: Run, log_writer: LogWriter) -> None:
    other = LogWriter("pool-b", 1, log_writer.cluster)
    careful = PreemptionRules(actions=("allocate", "consolidate"), max_migrations=3)
    other.begin(DEFAULT_POLICY.model_copy(update={"preemption": careful}))
    assert cells(bailiff("pool", "list").output) == [
        ["POOL", "NODES", "GPUS", "IN", "USE", "FREE", "RUNNING", "PENDING", "PROJECTS", "DISABLED"],
        ["pool-a", "2/2", "12", "8", "0", "0", "2", "-", "consolidate"],
        ["pool-b", "0/0", "0", "0", "0", "0", "0", "-", "reclaim,", "preempt"],
    ]
    assert [row["disabled_actions"] for row in json.loads(bailiff("pool", "list", "-o", "json").output)] == [
        ["consolidate"],
        ["reclaim", "preempt"],
    ]


def test_classes_with_their_jobs_and_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log_writer = quiet_story(LogWriter())
    log_writer.state.policy = log_writer.state.rules.model_copy(
        update={"identity": IdentityRules(class_users={"inference": ("console",)})}
    )
    run = command_on(lambda: AnsweringBus(log_writer), monkeypatch, str(tmp_path))
    lines = cells(run("class", "list").output)
    assert ["inference", "125", "no", "yes", "2m30s", "all", "-", "-"] in lines
    assert ["train", "(default)", "50", "yes", "yes", "2m30s", "all", "1", "-"] in lines


def test_cluster_info_is_a_summary(bailiff: Run) -> None:
    output = bailiff("cluster-info").output
    assert "2 nodes, 8/12 GPUs in use, 2 jobs pending" in output
    assert "pool pool-a" in output
    assert "preempt within the pool" in output
    found = json.loads(bailiff("cluster-info", "-o", "json").output)
    assert (found["total"]["gpus"], found["pools"][0]["pool"]) == (12, "pool-a")


# --- a new pool


FILE = "# ours\npools:\n- name: pool-a  # the first\n  partition: 0\n"


def test_a_pool_is_declared_with_the_next_free_partition(bailiff: Run, log_writer: LogWriter, tmp_path: Path) -> None:
    file = tmp_path / "pools.yaml"
    file.write_text(FILE)
    quiet_story(LogWriter("gone", 1, log_writer.cluster))  # it has a log and is no longer declared
    found = bailiff("pool", "create", "pool-b", "--pools", str(file), "--description", 'for "students": play')
    assert found.exit_code == ExitCode.DONE, found.output
    assert file.read_text().startswith(FILE)
    assert [(pool.name, pool.partition) for pool in read_pools(file)] == [("pool-a", 0), ("pool-b", 2)]
    assert read_pools(file)[1].description == 'for "students": play'
    output = " ".join(found.output.split())
    assert "Remaining steps: 1. bailiff topics create --pools" in output
    assert "restart them: this creates the log" in output


def test_the_first_pool_creates_the_file(bailiff: Run, tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    assert bailiff("pool", "create", "first", "--pools", str(file), "--partition", "0").exit_code == ExitCode.DONE
    assert [(pool.name, pool.partition) for pool in read_pools(file)] == [("first", 0)]


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        (FILE, ["pool-a"], "declares a pool 'pool-a' already"),
        (FILE, ["b", "--partition", "0"], "--partition: 0 belongs to another pool"),
        (FILE, ["Not A Name", "--partition", "3"], "expected a name of at most 63 characters"),
        ("pools: [{name: a, partition: 0}]\n", ["b", "--partition", "3"], "not written as a plain list of pools"),
    ],
)
def test_a_rejected_pool_does_not_change_the_file(
    bailiff: Run, tmp_path: Path, text: str, arguments: list[str], expected: str
) -> None:
    file = tmp_path / "pools.yaml"
    file.write_text(text)
    found = bailiff("pool", "create", *arguments, "--pools", str(file))
    assert (found.exit_code, expected in found.stderr.replace("\n", " ")) == (ExitCode.USAGE, True), found.stderr
    assert file.read_text() == text
    assert list(tmp_path.glob("*.draft")) == []
