"""`make up` typed again and again on a system whose processes are killed: its jobs run on, and it says what it did."""

import json
import random
import re
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kits.job_processes import process_of
from tests.kits.make_up import PATIENCE_S, Up

from bailiff_devstack.identity import wait_until
from bailiff_devstack.updown import FOLDERS, KEEPER, NOT_RUNNING

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def _system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    system = Up(tmp_path_factory.mktemp("up") / "state")
    yield system
    system.run("down", "--now")


@pytest.fixture
def system(_system: Up) -> Up:
    """The file's system, without jobs. It runs, whatever the test before left of it: `make up` starts what is missing."""
    _system.up("--gpus", "4xH100-80GB")
    if jobs := _system.bailiff("list", "-o", "name").split():
        _system.bailiff("cancel", "--grace", "0s", *jobs)
        assert wait_until(lambda: not _system.bailiff("list", "-o", "name"), PATIENCE_S)
    return _system


def submitted(system: Up, name: str) -> Path:
    """The file to which each start of a job of two GPUs that never ends adds its pid; there is one when this returns."""
    pids = system.state.parent / name
    system.bailiff("submit", "--name", name, "--gpus", "2", "--", "bash", "-c", f"echo $$ >> {pids}; exec sleep infinity")
    assert wait_until(pids.exists, PATIENCE_S)
    return pids


@pytest.mark.parametrize("rounds", [4, pytest.param(20, marks=pytest.mark.long)])
def test_jobs_survive_make_up_and_kills_of_everything_between(system: Up, rounds: int) -> None:
    pids = submitted(system, "steady")
    chance = random.Random(rounds)
    for _ in range(rounds):
        for name in chance.sample(list(FOLDERS), k=chance.randint(0, 2)):
            system.kill(name)
        said = system.up()
        assert "Bailiff is running." in said
        assert system.run("status").returncode == 0, "everything runs when it returns"
    (pid,) = pids.read_text().split()
    assert process_of(system.state / "state", "steady-1-0", int(pid)), "the job's process was never touched"
    assert "steady" in system.bailiff("list")


def test_on_a_running_system_it_touches_nothing(system: Up) -> None:
    before = {name: system.process(name) for name in FOLDERS}
    said = system.up("--gpus", "8xH100-80GB")
    assert "everything runs already; nothing was started" in said
    assert "GPUS=8xH100-80GB is ignored: the node has 4xH100-80GB until `make down`" in said
    assert {name: system.process(name) for name in FOLDERS} == before
    engines = re.findall(r"BAILIFF_ENGINES=(\S+)", said)
    assert engines, "`audit replay` finds them in whatever folder it is called"
    assert list(Path(engines[0]).glob("*/*.whl"))


def test_what_ends_is_started_again_by_itself(system: Up) -> None:
    log = system.state / "services" / "keeper.log"
    before = log.read_text()
    for name in ("console", "node-agent", "kafka"):
        killed = system.kill(name)
        assert wait_until(lambda name=name, killed=killed: system.process(name) != killed, PATIENCE_S), name
    assert wait_until(lambda: system.run("status").returncode == 0, PATIENCE_S)
    assert "ended: console; starting again" in log.read_text().removeprefix(before)


def test_a_task_folder_that_is_gone_does_not_end_the_agent(system: Up) -> None:
    pids = submitted(system, "lost")
    system.kill(KEEPER)
    system.kill("node-agent")
    (tasks,) = (system.state / "state" / "node-agent").glob("*/*/tasks")
    shutil.rmtree(tasks)
    assert "starting node-agent" in system.up()
    assert wait_until(lambda: len(pids.read_text().split()) == 2, PATIENCE_S), "the job starts again"
    assert system.process("node-agent").alive()


def test_a_service_that_has_no_address_is_started_anew(system: Up) -> None:
    system.kill(KEEPER)
    before = system.process("console")
    (system.state / "state" / "console.address").unlink()
    assert "starting console" in system.up()
    assert system.process("console") != before
    assert not before.alive()


def test_a_port_in_use_is_named_before_anything_starts(system: Up) -> None:
    system.kill(KEEPER)
    killed = system.kill("console")
    others = {name: system.process(name) for name in FOLDERS if name not in ("console", KEEPER)}
    port = int((system.state / "console.port").read_text())
    with socket.create_server(("127.0.0.1", port)):
        done = system.run("up")
    assert done.returncode == 1
    assert f"port {port} of console is in use by another program" in done.stdout
    assert {name: system.process(name) for name in others} == others
    status = system.run("status")
    assert status.returncode == NOT_RUNNING
    assert "2 processes missing" in status.stdout
    system.up()
    assert system.process("console") != killed


def test_down_stops_all_of_it_and_nothing_comes_back(system: Up) -> None:
    processes = [system.process(name) for name in FOLDERS]
    assert "stopped: " in system.run("down").stdout
    assert not any(process.alive() for process in processes)
    assert system.run("status").stdout == "nothing runs: `make up` starts it\n"
    assert system.run("down").stdout == "nothing was running\n"


SAVES = """trap 'kill $!; echo saved >> {file}; exit 0' TERM; echo start >> {file}; sleep infinity & wait"""
IGNORES = """trap '' TERM; echo start >> {file}; while :; do sleep 1; done"""


def script_job(system: Up, name: str, script: str) -> Path:
    """The file to which a job of one GPU writes; it runs when this returns."""
    file = system.state.parent / name
    system.bailiff("submit", "--name", name, "--gpus", "1", "--", "bash", "-c", script.format(file=file))
    assert wait_until(file.exists, PATIENCE_S)
    return file


def causes(system: Up, job: str) -> list[str]:
    """Why each of the job's attempts ended."""
    lines = system.bailiff("audit", "tail", "--from", "0", "--type", "JobRequeued", "--job", job, "-o", "json").splitlines()
    return [json.loads(line)["data"]["cause"] for line in lines]


def test_down_lets_jobs_save_and_the_next_up_continues_them(system: Up) -> None:
    file = script_job(system, "saves", SAVES)
    assert "asking saves to save and stop: " in system.run("down").stdout
    assert file.read_text().split() == ["start", "saved"]
    assert "node-1 takes jobs again" in system.up()
    assert wait_until(lambda: file.read_text().split() == ["start", "saved", "start"], PATIENCE_S)
    assert causes(system, "saves") == ["drain"], "its time ends with its release before the stop, not at the next start"
    assert "it was evicted: node-1 is drained (quick): make down" in system.bailiff("explain", "saves")


@pytest.mark.parametrize("interrupt", [False, True])
def test_down_without_waiting_ends_what_does_not_stop_by_record(system: Up, interrupt: bool) -> None:
    job = f"ignores-{'interrupt' if interrupt else 'now'}"
    script_job(system, job, IGNORES)
    if interrupt:
        down = system.begin("down")
        assert down.stdout is not None
        assert any(f"asking {job} to save" in line for line in down.stdout)
        down.send_signal(signal.SIGINT)
        assert "not waiting any longer" in down.communicate()[0]
    else:
        assert f"{job} has stopped" in system.run("down", "--now").stdout
    system.up()
    assert causes(system, job) == ["drain"]


def test_a_drain_by_an_operator_outlives_down_and_up(system: Up) -> None:
    script_job(system, "drained", SAVES)
    system.bailiff("drain", "node-1", "--yes", "--reason", "new driver")
    system.run("down")
    assert "takes jobs again" not in system.up()
    assert "new driver" in system.bailiff("nodes")
    system.bailiff("undrain", "node-1")


def test_down_says_which_jobs_had_no_notice(system: Up) -> None:
    file = script_job(system, "unnoticed", SAVES)
    system.kill(KEEPER)
    system.kill("admission")
    assert "1 running task was killed without notice" in system.run("down").stdout
    assert file.read_text().split() == ["start"]
