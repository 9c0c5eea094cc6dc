"""Scripts bring their own Python: the package runs on every one from 3.9."""

import ast
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import bailiff_job

pytestmark = pytest.mark.slow  # other interpreters are started

PACKAGE = Path(bailiff_job.__file__).parent
SCRIPT = """
import sys, pathlib
from bailiff_job import attach
import bailiff_job.command, bailiff_job.workers

place = sys.argv[1]
weight = {}
def run(total):
    job = attach(place, every_steps=5)
    state = {"w": 0}
    def load(folder): state["w"] = int((folder / "w").read_text())
    def save(folder): (folder / "w").write_text(str(state["w"]))
    for step in range(job.restore(load), total):
        state["w"] += step
        job.progress(step, total)
        if job.should_checkpoint(step):
            job.checkpoint(step, save, wait=step != 9)
        if job.preempted:
            job.exit()
    return state["w"]
run(12)
assert run(20) == sum(range(20))
assert bailiff_job.command.main(["should-checkpoint", "4", "--every", "5"]) == 0
print("fine")
"""


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_newer_syntax(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 9))


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.11", "3.12", "3.13"])
def test_it_runs_on(version: str, tmp_path: Path) -> None:
    installed = map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    python = next(installed, None) or shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-V"], capture_output=True, check=False).returncode:
        pytest.skip(f"there is no Python {version} on this machine")
    env = {name: value for name, value in os.environ.items() if not name.startswith("BAILIFF")}
    done = subprocess.run(
        [python, "-W", "error", "-c", SCRIPT, str(tmp_path / "kept")],
        env={**env, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "fine\n", done.stderr
