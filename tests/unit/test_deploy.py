"""The systemd units: systemd understands them, and what they start and when they stay down fits the services."""

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from bailiff_service.exit_code import ExitCode

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
INSTALL = "".join(
    (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8") for page in ("install-systemd", "install-gpu-machines")
)
unit = pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)


@unit
def test_systemd_understands_the_unit(path: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace("/opt/bailiff/bin/python", sys.executable))  # systemd looks for the program
    command = ["systemd-analyze", "verify", "--man=no", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@unit
def test_installing_names_the_unit_and_every_file_that_it_reads(path: Path) -> None:
    assert path.name in INSTALL
    for file in re.findall(r"^EnvironmentFile=-?(\S+)$", path.read_text(), re.MULTILINE):
        assert file.replace("%i", "admission") in INSTALL


def test_the_control_services_are_instances_of_one_unit() -> None:
    started = re.search(r"systemctl enable --now (bailiff@.+)", INSTALL)
    assert started is not None
    names = [name.removeprefix("bailiff@") for name in started[1].split()]
    assert names == ["victim_selection", "eviction_executor", "admission"]
    assert all(find_spec(f"bailiff_{name}") for name in names)


def test_a_control_service_stays_down_where_a_restart_changes_nothing() -> None:
    text = (ROOT / "deploy" / "systemd" / "bailiff@.service").read_text()
    listed = re.search(r"^RestartPreventExitStatus=(.+)$", text, re.MULTILINE)
    assert listed is not None
    again = {ExitCode.CLEAN, ExitCode.STOP_TIMED_OUT, ExitCode.DISK, ExitCode.INTERNAL}
    assert {ExitCode(int(code)) for code in listed[1].split()} == set(ExitCode) - again
