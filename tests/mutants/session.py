"""Runs tests of the core in forks: collected once with fixed examples, each piece of work in a fork of its own."""

import os
import pickle
import select
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

TESTS = (
    *("tests/unit/core", "tests/unit/core_placement", "tests/unit/core_protections", "tests/unit/core_queue", "tests/scenarios"),
    *("tests/histories", "tests/property"),
)
MARKS = "not long and not gpu and not nvml and not compose"
Work = tuple[Any, Callable[[], Any]]


def collect(loop: Callable[[list[pytest.Item]], None], paths: Sequence[str] = TESTS) -> None:
    """Collect the tests that see the core, or those of some files, and hand them to `loop`."""

    class Plugin:
        @staticmethod
        def pytest_configure() -> None:
            from hypothesis import HealthCheck, Phase, settings  # pytest rewrites its asserts, so not before pytest began

            phases, health = (Phase.explicit, Phase.generate), list(HealthCheck)
            settings.register_profile(
                "mutants", derandomize=True, deadline=None, database=None, phases=phases, suppress_health_check=health
            )
            settings.load_profile("mutants")

        @staticmethod
        def pytest_runtestloop(session: pytest.Session) -> bool:
            if session.testsfailed:
                raise session.Interrupted("a file with tests does not import")
            loop(session.items)
            return True

    code = pytest.main(["-q", "-q", "-p", "no:cacheprovider", "-m", MARKS, *paths], plugins=[Plugin()])
    if code != pytest.ExitCode.OK:
        raise RuntimeError(f"pytest ended with {code!r}")


def failures(items: Sequence[pytest.Item], around: Callable[[pytest.Item, Callable[[], None]], None]) -> Iterator[str]:
    """Run the tests one by one, each within `around`, and yield what failed. Only in a fork."""
    failed: list[str] = []

    class Watch:
        @staticmethod
        def pytest_runtest_logreport(report: pytest.TestReport) -> None:
            if report.failed:
                failed.append(f"{report.nodeid}: {report.longreprtext}")

    if items:
        plugins = items[0].config.pluginmanager
        plugins.unregister(name="terminalreporter")
        plugins.register(Watch())
    for item, following in zip(items, [*items[1:], None], strict=True):
        around(
            item, lambda item=item, following=following: item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        )
        yield from failed
        failed.clear()


def in_forks(workers: int, works: Iterable[Work]) -> Iterator[tuple[Any, Any]]:
    """Run each work in a fork, so many at a time: its name and its result, a negative signal where one ended the fork.

    What a work raises is a fault of these tools, and is raised here.
    """
    waiting, running = iter(works), dict[int, tuple[Any, int, bytearray]]()
    while True:
        while len(running) < workers and (work := next(waiting, None)) is not None:
            pipe, pid = _fork(work[1])
            running[pipe] = work[0], pid, bytearray()
        if not running:
            return
        for pipe in select.select(list(running), [], [])[0]:
            name, pid, result = running[pipe]
            if some := os.read(pipe, 1 << 20):
                result += some
                continue
            os.close(pipe)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            del running[pipe]
            if status > 0:
                raise RuntimeError(f"{name}: {result.decode()}")
            yield name, status or pickle.loads(result)


def _fork(work: Callable[[], Any]) -> tuple[int, int]:
    """Start the work in a fork: a pipe with its pickled result, and its process id."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return reading, pid
    status = 1
    try:
        os.close(reading)
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        try:
            result, status = pickle.dumps(work()), 0
        except BaseException:  # noqa: BLE001 - raised in the parent
            result = traceback.format_exc().encode()
        while result:
            result = result[os.write(writing, result) :]
    finally:
        os._exit(status)
