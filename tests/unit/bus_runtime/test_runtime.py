"""The life of a service: it starts, waits for Kafka, is asked to stop, and ends with a code that says how."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bailiff_bus.port import BusUnavailable
from bailiff_core.records.wire import UnreadableRecord
from bailiff_service.exit_code import ExitCode, MustStop
from bailiff_service.main import ServiceRunner
from bailiff_service.metrics import Metrics
from bailiff_service.settings import ServiceSettings, SettingsError

Work = Callable[[asyncio.Event], Any]


class Scripted:
    """A service that does what the story says."""

    name = "scripted"

    def __init__(self, work: Work, checks: Mapping[str, str | None] | None = None) -> None:
        self._work, self._checks = work, checks or {}

    async def run(self, stop: asyncio.Event) -> None:
        await self._work(stop)

    def readiness(self) -> Mapping[str, str | None]:
        return self._checks


class Stage:
    """A host whose pauses are noted instead of waited for."""

    def __init__(self, *works: Work, **settings: Any) -> None:
        self.works = iter(works)
        self.pauses: list[float] = []
        self.metrics = Metrics()
        self.seen: list[Mapping[str, str | None]] = []
        self.host = ServiceRunner(self._make, ServiceSettings(instance="one", **settings), self.metrics, self._pause)

    def _make(self, _settings: ServiceSettings, _metrics: Metrics) -> Scripted:
        return Scripted(next(self.works))

    async def _pause(self, seconds: float, _stop: asyncio.Event) -> None:
        self.pauses.append(seconds)
        self.seen.append(self.host.readiness())

    async def play(self) -> ExitCode:
        return await self.host.serve()


def failing(error: BaseException) -> Work:
    async def work(_: asyncio.Event) -> None:
        raise error

    return work


async def in_a_group(error: Exception) -> None:
    """What a service does that runs its parts in a task group."""
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.Event().wait())
        group.create_task(failing(error)(asyncio.Event()))


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


async def test_a_service_that_is_asked_to_stop_ends_cleanly(capsys: pytest.CaptureFixture[str]) -> None:
    async def work(stop: asyncio.Event) -> None:
        stage.host.request_stop("SIGTERM")
        await stop.wait()

    stage = Stage(work)
    assert await stage.play() is ExitCode.CLEAN
    logged = lines(capsys)
    assert [line["event"] for line in logged] == ["started", "stopping", "stopped"]
    assert {(line["service"], line["instance"]) for line in logged} == {("scripted", "one")}
    assert b'bailiff_engine_info{engine="0.1.0/' in stage.metrics.text()


async def test_kafka_that_is_not_there_is_one_warning_a_try_and_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    async def work(stop: asyncio.Event) -> None:
        assert stage.host.readiness()["kafka"] is None
        stage.host.request_stop("SIGTERM")

    gone = BusUnavailable("connection refused")
    stage = Stage(failing(gone), lambda _: in_a_group(gone), failing(gone), work)
    assert await stage.play() is ExitCode.CLEAN
    logged = lines(capsys)
    assert [line["event"] for line in logged if line["level"] == "warning"] == [
        f"Kafka is unreachable: waiting for 127.0.0.1:9092 (attempt {number})" for number in (1, 2, 3)
    ]
    assert not any("Traceback" in json.dumps(line) for line in logged)
    assert stage.pauses == [0.5, 1.0, 2.0]
    assert stage.seen[0] == {"kafka": "unreachable: connection refused"}


async def test_the_pauses_are_bounded_however_long_kafka_is_away(capsys: pytest.CaptureFixture[str]) -> None:
    async def work(_: asyncio.Event) -> None:
        stage.host.request_stop("SIGTERM")

    stage = Stage(*[failing(BusUnavailable())] * 1100, work, log_level="error")
    assert await stage.play() is ExitCode.CLEAN
    assert max(stage.pauses) == 15.0


async def test_a_stop_while_kafka_is_away_is_clean() -> None:
    async def work(_: asyncio.Event) -> None:
        stage.host.request_stop("SIGTERM")
        raise BusUnavailable

    stage = Stage(work)
    assert await stage.play() is ExitCode.CLEAN
    assert stage.pauses == []


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (MustStop(ExitCode.CLOCK, "7 s apart"), ExitCode.CLOCK, "7 s apart"),
        (UnreadableRecord("a100#7 X"), ExitCode.UNREADABLE_RECORD, "the log cannot be read further: a100#7 X"),
        (SettingsError(["a", "b"]), ExitCode.SETTINGS, "settings: a; b"),
        (
            OSError(28, "No space left on device", "fences"),
            ExitCode.DISK,
            "a file cannot be written: [Errno 28] No space left on device: 'fences'",
        ),
        (OSError(13, "Permission denied"), ExitCode.INTERNAL, "internal error: PermissionError: [Errno 13] Permission denied"),
        (ZeroDivisionError("oh"), ExitCode.INTERNAL, "internal error: ZeroDivisionError: oh"),
    ],
)
@pytest.mark.parametrize("grouped", [False, True])
async def test_an_end_for_a_reason_is_one_line_and_a_code(
    capsys: pytest.CaptureFixture[str], error: Exception, code: ExitCode, line: str, grouped: bool
) -> None:
    work = (lambda _: in_a_group(error)) if grouped else failing(error)
    assert await Stage(work).play() is code
    (logged,) = [entry for entry in lines(capsys) if entry["level"] == "error"]
    assert (logged["event"], logged["exit_code"]) == (line, code)
    assert ("traceback" in logged) == (code is ExitCode.INTERNAL)


async def test_the_most_specific_of_several_reasons_is_reported() -> None:
    both = ExceptionGroup("", [BusUnavailable(), ValueError("x"), MustStop(ExitCode.CLOCK, "7 s apart")])
    assert await Stage(failing(both)).play() is ExitCode.CLOCK
    assert await Stage(failing(ExceptionGroup("", [BusUnavailable(), ValueError()]))).play() is ExitCode.INTERNAL


async def test_a_service_may_not_end_unasked() -> None:
    async def work(_: asyncio.Event) -> None:
        pass

    assert await Stage(work).play() is ExitCode.INTERNAL


async def test_a_service_that_cancels_itself_has_ended_unasked() -> None:
    assert await Stage(failing(asyncio.CancelledError())).play() is ExitCode.INTERNAL


async def test_a_service_that_does_not_stop_is_abandoned() -> None:
    async def work(_: asyncio.Event) -> None:
        stage.host.request_stop("SIGTERM")
        stage.host.request_stop("SIGTERM")
        await asyncio.Event().wait()

    stage = Stage(work)
    assert await stage.play() is ExitCode.STOP_TIMED_OUT


async def test_an_address_that_is_taken_is_a_fault_of_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        assert await Stage(failing(AssertionError()), http_port=port).play() is ExitCode.SETTINGS
    assert lines(capsys)[0]["event"].startswith(f"the HTTP address 127.0.0.1:{port} cannot be bound")


async def test_the_address_file_is_whole_while_the_service_runs_and_gone_after(tmp_path: Path) -> None:
    file = tmp_path / "run" / "http"

    async def work(_: asyncio.Event) -> None:
        assert file.read_text(encoding="utf-8").startswith("http://127.0.0.1:")
        stage.host.request_stop("SIGTERM")

    stage = Stage(work, http_address_file=file)
    assert await stage.play() is ExitCode.CLEAN
    assert not list(file.parent.iterdir())


async def test_an_address_file_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").touch()
    assert await Stage(failing(AssertionError()), http_address_file=tmp_path / "run" / "http").play() is ExitCode.SETTINGS
    assert lines(capsys)[0]["event"].startswith("the file of the HTTP address cannot be written")


def test_each_exit_code_says_what_it_means() -> None:
    assert [int(code) for code in ExitCode] == [0, 2, 3, 4, 5, 6, 7, 8, 9, 70]
    assert all(code.__doc__ for code in ExitCode)
    assert len({code.__doc__ for code in ExitCode}) == len(ExitCode)


async def test_cancelling_the_host_cancels_its_service() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def work(_: asyncio.Event) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    playing = asyncio.create_task(Stage(work).play())
    await began.wait()
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing
    await ended.wait()


# --- the same as a process of its own

PROGRAM = """
import asyncio, sys
from bailiff_service.main import main
from bailiff_service.settings import ServiceSettings

class Forever:
    name = "forever"
    def __init__(self, settings, metrics): pass
    def readiness(self): return {}
    async def run(self, stop):
        print("running", flush=True)
        await stop.wait()
        while STUBBORN:
            print("stubborn", flush=True)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass

STUBBORN = "stubborn" in sys.argv
sys.exit(main(ServiceSettings, Forever))
"""


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the program above; what is left of it at the end is killed."""
    started = []

    def begin(*arguments: str, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables},
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        with process:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
def test_a_signal_stops_the_process_cleanly(start: Callable[..., subprocess.Popen[str]], number: signal.Signals) -> None:
    process = start(BAILIFF_INSTANCE="one")
    assert process.stdout
    assert process.stdout.readline() == "running\n"
    process.send_signal(number)
    _, logged = process.communicate()
    assert process.returncode == 0
    stopping = json.loads(logged.splitlines()[1])
    assert (stopping["event"], stopping["signal"], stopping["service"]) == ("stopping", number.name, "forever")


@pytest.mark.slow
def test_a_process_that_swallows_its_cancellation_ends_all_the_same(start: Callable[..., subprocess.Popen[str]]) -> None:
    process = start("stubborn", BAILIFF_STOP_TIMEOUT_S="0.2")
    assert process.stdout
    assert process.stdout.readline() == "running\n"
    process.terminate()
    _, logged = process.communicate()
    assert process.returncode == ExitCode.STOP_TIMED_OUT
    assert "did not stop in time" in logged


@pytest.mark.slow
def test_a_fault_in_the_settings_is_one_sentence_and_code_2(start: Callable[..., subprocess.Popen[str]]) -> None:
    process = start(BAILIFF_HTTP_PORT="eighty")
    _, logged = process.communicate()
    assert process.returncode == ExitCode.SETTINGS
    assert logged == 'settings: http_port (BAILIFF_HTTP_PORT): expected a whole number, found "eighty"\n'
