"""`bailiff-job`: the same contract for shell programs, each call a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kits.job_node import AGREED, CONFIRMED, PROPOSED, STEP, JobNode

PACKAGE = Path(__file__).parents[3] / "libs/job"


class Shell:
    def __init__(self, folder: Path, node: JobNode | None = None, **env: str) -> None:
        self.folder, self.env = folder, {**os.environ, "PYTHONPATH": str(PACKAGE)}
        (folder / "bin").mkdir(exist_ok=True)
        command = folder / "bin/bailiff-job"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m bailiff_job "$@"\n')
        command.chmod(0o755)
        self.env["PATH"] = f"{folder / 'bin'}:{self.env['PATH']}"
        if node:
            control = str(node.control)
            self.env |= {
                "BAILIFF_JOB_ID": "train-7",
                "BAILIFF_ATTEMPT": "1",
                "BAILIFF_CHECKPOINT_DIR": str(folder / "checkpoints"),
                "BAILIFF_CONTROL_DIR": control,
                "BAILIFF_SOCKET": f"{control}/socket",
            }
        self.env |= env

    def run(self, *arguments: object) -> tuple[int, str]:
        done = subprocess.run(
            [str(self.folder / "bin/bailiff-job"), *map(str, arguments)],
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.strip() or done.stderr.strip()

    def code(self, *arguments: object) -> int:
        return self.run(*arguments)[0]


@pytest.mark.slow
def test_outside_bailiff_it_is_quiet(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    for name in [name for name in shell.env if name.startswith("BAILIFF")]:
        del shell.env[name]
    assert shell.code("should-checkpoint", 3) == 1
    assert shell.code("should-checkpoint", 9, "--every", 10) == 0
    assert shell.code("progress", 3, 10) == 0
    assert shell.code("preempted") == 1
    assert shell.code("notice") == 1
    assert shell.run("restore", shell.folder) == (0, "0")
    assert shell.run("latest") == (1, "")
    assert shell.run("checkpoint", 3, shell.folder / "bin") == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


@pytest.mark.slow
def test_one_preemption(tmp_path: Path, node: JobNode) -> None:
    shell = Shell(tmp_path, node)
    state = tmp_path / "state"
    state.write_text("weights of 7")
    assert shell.run("restore", tmp_path) == (0, "0")
    assert shell.code("progress", 7, 100) == 0
    assert shell.code("should-checkpoint", 7) == 1
    node.notice(agreed=0)
    assert json.loads(shell.run("notice")[1])["preemptor"] == "serve-1"
    assert shell.code("preempted") == 1
    assert shell.code("should-checkpoint", 7) == 0
    folder = tmp_path / "checkpoints/attempt-0001/step-00000007"
    assert shell.run("checkpoint", 7, state) == (0, str(folder))
    assert shell.code("should-checkpoint", 7) == 1
    assert shell.code("preempted") == 0
    assert shell.code("yielding") == 85
    assert node.stages() == ["resumed", "acknowledged", "checkpoint_started", "checkpoint_committed", "yielding"]
    assert node.word(STEP) == 7
    again = Shell(tmp_path, None, **{**shell.env, "BAILIFF_ATTEMPT": "2"})
    state.unlink()
    assert again.run("latest") == (0, str(folder))
    assert again.run("restore", tmp_path) == (0, "8")
    assert state.read_text() == "weights of 7"


def test_a_program_at_its_end_reports_done(tmp_path: Path, node: JobNode) -> None:
    shell = Shell(tmp_path, node)
    node.notice(agreed=0)
    assert shell.code("done") == 0
    node.wait_for(lambda: node.stages() == ["done"])


@pytest.mark.slow
def test_a_program_that_keeps_its_own_checkpoints(tmp_path: Path, node: JobNode) -> None:
    shell = Shell(tmp_path, node)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/a").write_text("aaaa")
    (tmp_path / "mine/b").write_text("b")
    node.notice(agreed=0)
    assert shell.code("ack", 7) == 0
    assert shell.code("ack", 7) == 0
    assert shell.code("committed", 7, tmp_path / "mine") == 0
    assert shell.code("preempted") == 0
    assert node.stages() == ["acknowledged", "checkpoint_committed"]
    assert node.messages("checkpoint_committed")[0]["bytes"] == 5


def test_a_rank_of_a_gang_keeps_its_confirmed_step_between_calls(tmp_path: Path, node: JobNode) -> None:
    shell = Shell(tmp_path, node, RANK="0", WORLD_SIZE="2")
    node.notice()
    node.write(PROPOSED, 9)
    assert shell.code("should-checkpoint", 7) == 1
    assert node.word(CONFIRMED) == 9
    asking = subprocess.Popen([str(tmp_path / "bin/bailiff-job"), "should-checkpoint", "9"], env=shell.env)
    node.wait_for(lambda: node.word(STEP) == 9)
    assert asking.poll() is None
    node.write(AGREED, 9)
    assert asking.wait(30) == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("checkpoint", "7", "nowhere"), "nowhere does not exist"),
        (("progress", "seven"), "'seven' is not a step: it must be a whole number from 0"),
        (("committed", "7", "nowhere"), "No such file or directory: 'nowhere'"),
        ((), "the following arguments are required: COMMAND"),
    ],
)
def test_an_invalid_call_is_an_error(arguments: tuple[str, ...], problem: str, tmp_path: Path, node: JobNode) -> None:
    code, output = Shell(tmp_path, node).run(*arguments)
    assert code == 2
    assert problem in output
