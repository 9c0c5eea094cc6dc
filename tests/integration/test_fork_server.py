"""Services that are forked from one process: each has its own environment, output, exit code and life."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from bailiff_devstack.forked import fork_server, start_forked
from bailiff_devstack.identity import Identity, wait_until
from bailiff_node_agent.runtime.fork_server import ForkServer, ForkServerDied

SERVICE = """
import os, sys, time
if os.environ.get("FAIL"):
    raise ValueError("out of order")
print(os.environ["NAME"], os.getcwd(), __name__, flush=True)
if os.environ.get("STAY"):
    time.sleep(600)
sys.exit(int(os.environ["CODE"]))
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package whose `__main__` can be run, in a folder on the path of child processes."""
    folder = tmp_path / "packages" / "sample_service"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "__main__.py").write_text(f"if __name__ == '__main__':\n{textwrap.indent(SERVICE, '    ')}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "packages"), *sys.path]))
    return "sample_service"


@pytest.fixture
def server(package: str) -> Iterator[ForkServer]:
    server = fork_server([package])
    yield server
    server.close()


def test_each_service_has_its_own_environment_folder_output_and_exit_code(
    server: ForkServer, package: str, tmp_path: Path
) -> None:
    logs = {name: tmp_path / f"{name}.log" for name in ("one", "two")}
    folders = {name: tmp_path / f"folder-{name}" for name in logs}
    for folder in folders.values():
        folder.mkdir()
    codes = {"one": 0, "two": 7}
    children = {
        name: start_forked(server, package, log=logs[name], env={"NAME": name, "CODE": str(codes[name])}, cwd=folders[name])
        for name in logs
    }
    assert {name: child.wait(30) for name, child in children.items()} == codes
    for name, log in logs.items():
        assert log.read_text() == f"{name} {folders[name]} __main__\n"


def test_a_crash_is_exit_code_1_with_its_traceback_in_the_log(server: ForkServer, package: str, tmp_path: Path) -> None:
    child = start_forked(server, package, log=tmp_path / "log", env={"FAIL": "1"})
    assert child.wait(30) == 1
    assert (tmp_path / "log").read_text().endswith("ValueError: out of order\n")


def test_a_killed_service_exits_with_minus_9_and_others_run_on(server: ForkServer, package: str, tmp_path: Path) -> None:
    children = [start_forked(server, package, log=tmp_path / f"{name}.log", env={"NAME": name, "STAY": "1"}) for name in "ab"]
    children[0].kill()
    assert children[0].wait(30) == -signal.SIGKILL
    assert children[1].poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        children[1].wait(0.01)
    server.close()
    assert children[1].wait(30) == -signal.SIGKILL


@pytest.mark.parametrize("dies", [True, False])
def test_services_die_with_a_devstack_that_was_killed_unless_they_may_not(package: str, tmp_path: Path, dies: bool) -> None:
    program = f"""
import sys, time
from pathlib import Path
from bailiff_devstack.forked import fork_server, start_forked
env = dict(NAME="x", STAY="1")
server = fork_server(["{package}"])
child = start_forked(server, "{package}", log=Path("{tmp_path}/log"), env=env, die_with_parent={dies})
print(child.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as devstack:
        assert devstack.stdout is not None
        service = Identity.of(int(devstack.stdout.readline()))
        server = Identity.of(int(Path(f"/proc/{service.pid}/stat").read_text().rpartition(")")[2].split()[1]))
        assert wait_until(lambda: (tmp_path / "log").read_text() != "", 30)
        devstack.kill()
    assert wait_until(lambda: not server.alive(), 30)
    if dies:
        assert wait_until(lambda: not service.alive(), 30)
    else:
        assert service.alive()
        service.signal(signal.SIGKILL)


def test_a_module_that_cannot_be_imported_is_reported(package: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    server = fork_server(["no_such_service"])
    with pytest.raises(ForkServerDied, match="has exited"):
        start_forked(server, package, log=tmp_path / "log", env={})
    assert "No module named 'no_such_service'" in capfd.readouterr().err
    server.close()
    assert not server.alive()
