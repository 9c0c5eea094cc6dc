"""The systemd units: systemd understands them, what they start and when they stay down fits the services, and they make keys.

And the compose file: it runs a witness.
"""

import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from bailiff.cli import app
from bailiff_log.credentials import read_credentials
from bailiff_service.exit_code import ExitCode

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
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
    copy.write_text(path.read_text().replace("/opt/bailiff/bin/", f"{BIN}/"))  # systemd looks for the program
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


def test_keys_are_made_at_the_first_start_and_kept_at_later_ones(tmp_path: Path) -> None:
    """The commands of the unit, with another folder instead of /etc/bailiff."""
    path = ROOT / "deploy" / "systemd" / "bailiff-credentials.service"
    assert "ConditionPathExists=/etc/bailiff/root.key" in path.read_text()
    lines = re.findall(r"^ExecStart=(.+)$", path.read_text(), re.MULTILINE)
    *certify, chown = [shlex.split(line.replace("/etc/bailiff", str(tmp_path)).replace("%l", "control-1")) for line in lines]
    assert chown == ["/bin/chown", "-R", "bailiff:bailiff", f"{tmp_path}/credentials"]
    assert CliRunner().invoke(app, ["key", "root", f"{tmp_path}/root.key"]).exit_code == 0
    found, again = {}, {}
    for made in (found, again):
        for program, *arguments in certify:
            assert program == "/opt/bailiff/bin/bailiff"
            done = CliRunner().invoke(app, arguments)
            assert done.exit_code == 0, done.output
            folder = Path(arguments[2])
            made[folder.name] = read_credentials(folder)
            for file in (folder / "key", folder / "encryption.key"):
                assert file.stat().st_mode & 0o777 == 0o600
                assert file.read_text().strip() not in done.output
    assert {name: each.private_key for name, each in again.items()} == {name: each.private_key for name, each in found.items()}
    roles = {name: (each.certificate.role, each.certificate.name) for name, each in found.items()}
    services = ("admission", "victim_selection", "eviction_executor", "auditor", "rollup", "console")
    assert roles == {name: (name.replace("_", "-"), "control-1") for name in services}
    unit_text = (ROOT / "deploy" / "systemd" / "bailiff@.service").read_text()
    assert "BAILIFF_CREDENTIALS=/etc/bailiff/credentials/%i" in unit_text
    assert re.search(r"^After=.*bailiff-credentials.service", unit_text, re.MULTILINE)


def test_the_compose_file_runs_a_witness_with_a_disk_of_its_own() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    assert services["witness"]["command"] == ["python", "-m", "bailiff.witness"]
    assert services["witness"].get("profiles") is None  # it starts with the others
    mine = [mount.split(":")[0] for mount in services["witness"]["volumes"] if mount.endswith(":/var/lib/bailiff")]
    others = [str(mount) for name, each in services.items() if name != "witness" for mount in each.get("volumes", ())]
    assert mine == ["witness"]
    assert not any(mount.startswith("witness:") for mount in others)
    assert find_spec("bailiff.witness.__main__")
