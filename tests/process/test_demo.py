"""`make demo` on a fresh machine: it succeeds by itself, and Ctrl-C at any moment leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kits.criu import criu_program, why_no_criu

from bailiff_devstack.identity import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]
PATIENCE_S = 240  # it takes less than a minute on an idle machine


def start(folder: Path, criu: str = "") -> "subprocess.Popen[str]":
    """Start the demo with all its files below `folder`, by which its processes are identified. criu: the program; empty: none."""
    return subprocess.Popen(
        [sys.executable, "-m", "bailiff_devstack.demo"],
        env={**os.environ, "TMPDIR": str(folder), "BAILIFF_CRIU": criu},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def left_behind(folder: Path) -> list[str]:
    """Processes with the folder in their command line or environment, except this one and its parents."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            process_text = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in process_text:
            found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


@pytest.mark.parametrize("criu", [criu_program(), pytest.param("", marks=pytest.mark.long)], ids=["criu", "none"])
def test_the_demo_runs_is_verified_and_ends(tmp_path: Path, criu: str) -> None:
    """Exit code 0; the run interrupted three times has the same weights, the proof is printed, no process and no file remain.

    Where CRIU is, a plain program was saved twice, moved, and ends with what one computes that was never touched.
    """
    demo = start(tmp_path, criu)
    output, _ = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 0, output
    assert "preemption decided" in output
    (line,) = re.findall(r"^ *steps lost((?: +\d+)+) *$", output, re.MULTILINE)
    first, second, third, *of_plain = map(int, line.split())
    assert (first, second) == (0, 0), "a preempted job saves its current step"
    assert third > 0, "a killed job resumes from its last checkpoint"
    if criu and why_no_criu() is None:
        assert of_plain == [0, 0]
        nodes = re.findall(r"task restored +plain-1/0 +on (node-\d)", output)
        assert sorted(nodes) == ["node-1", "node-2"]
        untouched, saved = re.findall(r"^(?:uninterrupted|plain-1) +(\d\.\d+)$", output, re.MULTILINE)
        assert untouched == saved
    else:
        assert of_plain == []
        assert "4. Left out, a program that its node saves: " in output
        assert "keep-work-without-code.md" in output
    digests = re.findall(r"^(?:uninterrupted|train-\d) +([0-9a-f]{64})$", output, re.MULTILINE)
    assert len(digests) == 2
    assert len(set(digests)) == 1
    assert "so are the other 7 jobs" in output
    assert "verified" in output
    assert "byte for byte identical" in output
    assert left_behind(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "moment",
    [
        "starting Kafka",
        pytest.param("waiting for the services to become ready", marks=pytest.mark.long),
        "preemption decided",
        pytest.param("creating topics", marks=pytest.mark.long),
        pytest.param("starting admission", marks=pytest.mark.long),
        pytest.param("node joined", marks=pytest.mark.long),
        pytest.param("has finished; the preempted jobs", marks=pytest.mark.long),
        pytest.param("starting node-agent-2", marks=pytest.mark.long),
        pytest.param("is drained: its jobs", marks=pytest.mark.long),
        pytest.param("and is killed: kill -9", marks=pytest.mark.long),
        pytest.param("serve-3 is submitted: plain-1 is stopped", marks=pytest.mark.long),
        pytest.param("in the audit log", marks=pytest.mark.long),
    ],
)
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, moment: str) -> None:
    """Send SIGINT once this text is printed."""
    demo = start(tmp_path, criu_program())
    assert demo.stdout is not None
    output = ""
    for line in demo.stdout:
        output += line
        if moment in line:
            demo.send_signal(signal.SIGINT)
            break
    rest, _ = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 130, output + rest
    assert "Traceback" not in rest
    assert wait_until(lambda: left_behind(tmp_path) == [], 60), left_behind(tmp_path)
