"""The keeper of `make up` ends a service that runs and does not answer."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bailiff_devstack import _keeper
from bailiff_devstack._keeper import FIRST_DELAY_S, STEADY_S, Delays
from bailiff_devstack.identity import Identity, write_record

SERVES = """from http.server import HTTPServer, SimpleHTTPRequestHandler
server = HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
print(server.server_port, flush=True)
server.serve_forever()"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A service that `make up` has started in this folder."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVES], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "admission.address").write_text(f"http://127.0.0.1:{process.stdout.readline().strip()}\n")
        write_record(tmp_path / "services", "admission", Identity.of(process.pid))
        yield process
        process.kill()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(_keeper.time, "monotonic", lambda: now[0])
    return now


def test_a_service_that_is_stopped_is_ended_after_a_minute_and_not_before(
    tmp_path: Path, service: subprocess.Popen[str], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    silent: dict[int, float] = {}
    _keeper.end_silent(tmp_path, silent)
    assert not silent, "it answers"
    service.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(_keeper, "ANSWER_WITHIN_S", 0.2)
    for _ in range(2):
        _keeper.end_silent(tmp_path, silent)
        clock[0] += _keeper.SILENT_FOR_S
    assert service.poll() is None
    clock[0] += 1
    _keeper.end_silent(tmp_path, silent)
    assert service.wait() == -signal.SIGKILL


def test_a_service_that_answers_again_in_time_lives(
    tmp_path: Path, service: subprocess.Popen[str], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    silent: dict[int, float] = {}
    service.send_signal(signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr(_keeper, "ANSWER_WITHIN_S", 0.2)
        _keeper.end_silent(tmp_path, silent)
    service.send_signal(signal.SIGCONT)
    clock[0] += _keeper.SILENT_FOR_S + 1
    _keeper.end_silent(tmp_path, silent)
    assert not silent
    assert service.poll() is None


def test_each_process_has_a_delay_of_its_own() -> None:
    delays, now, starts = Delays(), 0.0, list[float]()
    for name in ("admission", "auditor", "api", "console"):  # one after the other, as in an upgrade
        assert not delays.is_due({name}, now)
        assert delays.is_due({name}, now + FIRST_DELAY_S)
        delays.started(now := now + FIRST_DELAY_S)
    for _ in range(8):  # one that ends again and again
        begin = now
        while not delays.is_due({"api"}, now):
            now += FIRST_DELAY_S
        starts.append(now - begin)
        delays.started(now)
    assert starts == [2, 4, 8, 16, 32, 60, 60, 60]
    assert not delays.is_due({"api", "rollup"}, now)
    assert delays.is_due({"api", "rollup"}, now + FIRST_DELAY_S), "what ended for the first time waits for no other"
    assert not delays.is_due({"api"}, now + FIRST_DELAY_S)
    delays.started(now)
    now += STEADY_S + 1
    assert not delays.is_due({"api"}, now)
    assert delays.is_due({"api"}, now + FIRST_DELAY_S)
