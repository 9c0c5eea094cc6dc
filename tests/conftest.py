"""Fixtures for all test folders."""

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from _pytest.nodeid import NodeId
from hypothesis import settings
from tests.dra_kit import dra_cluster  # noqa: F401
from tests.kafka_fixtures import kafka, private_kafka  # noqa: F401
from tests.kubernetes_cluster import kubernetes, kubernetes_api, kubernetes_namespace  # noqa: F401
from tests.postgres_fixtures import database, postgres, private_postgres  # noqa: F401
from tests.survival import _stages, stage  # noqa: F401
from tests.system import _battered_systems, _calm_systems, battered, system  # noqa: F401

settings.register_profile("untimed", deadline=None)  # a busy machine is no fault of the code
settings.load_profile("untimed")

TESTS = Path(__file__).parent
SHARED = ("_stages", "_calm_systems", "_battered_systems", "kafka", "kubernetes", "dra_cluster")
"""Session fixtures that several files share. The tests of each are one group, run by one worker, so each starts once."""
SYSTEMS = ("_stages", "_calm_systems", "_battered_systems")
"""Fixtures that stop after their group: Kafka and five idle services use a sixth of a core."""
ORDER = ("chaos", "acceptance", "process", "integration", "contract", "simulation", "fuzz", "property")
"""Order in which folders start, before all others: tests that mostly wait first, then long ones, short ones last."""

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # services that tests start, hundreds of times, are compiled once

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a process started with & ignores Ctrl-C, and so do its children
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests by group, the same for one worker as for several: see `make test`."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        group = _group(item)
        groups.setdefault(group, []).append(item)
        if getattr(item.config.option, "loadgroup", False):
            # The mark `xdist_group` does the same, but xdist 3.8 does not find the name in pytest 9.2.
            item._id = NodeId.parse(f"{item.nodeid}@{group}")
    items[:] = [item for group in sorted(groups, key=_place) for item in groups[group]]


def _group(item: pytest.Item) -> str:
    """The group that one worker runs without interruption: a file, or all tests that use the same session fixture."""
    used = getattr(item, "fixturenames", ())
    return next((name for name in SHARED if name in used), item.path.relative_to(TESTS).as_posix())


def _place(group: str) -> int:
    """Rank of the group in the start order."""
    if group in SHARED:
        return SHARED.index(group)
    folder = group.partition("/")[0]
    return len(SHARED) + (ORDER.index(folder) if folder in ORDER else len(ORDER))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop a system after its last test, to free the CPU."""
    following = getattr(nextitem, "fixturenames", ())
    started = getattr(item, "funcargs", {})
    for name in SYSTEMS:
        if name in started and name not in following:
            started[name].stop()


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """Restore the logging configuration, which tests of services and commands in this process change."""
    root, aiokafka = logging.getLogger(), logging.getLogger("aiokafka")
    handlers, level, configured = root.handlers[:], root.level, structlog.get_config()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    aiokafka.handlers.clear()  # a session fixture may have configured it before the first test
    aiokafka.setLevel(logging.NOTSET)
    aiokafka.propagate = True
    structlog.configure(**configured)
