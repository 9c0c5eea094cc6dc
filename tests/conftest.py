"""Fixtures for all test folders."""

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from _pytest.nodeid import NodeId
from tests.kafka_fixtures import kafka, private_kafka  # noqa: F401
from tests.postgres_fixtures import database, postgres, private_postgres  # noqa: F401
from tests.survival import _stages, stage  # noqa: F401
from tests.system import _battered_systems, _calm_systems, battered, system  # noqa: F401

TESTS = Path(__file__).parent
SHARED = ("_stages", "_calm_systems", "_battered_systems", "kafka")
"""Running parts that files share. Tests of each are one group, which one worker runs in one go: it starts them once."""
SYSTEMS = ("_stages", "_calm_systems", "_battered_systems")
"""Those that end with their group: Kafka and five services take a sixth of a core even while nobody asks them for anything."""
ORDER = ("chaos", "acceptance", "process", "integration", "contract", "simulation", "fuzz", "property")
"""Folders in the order in which they begin, before all others: what mostly waits, then what is long, and what is short last."""

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # services that tests start, hundreds of times, are compiled once

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # what runs behind a shell's & is deaf to Ctrl-C, and so is what it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group by group, the same whether one worker runs them all or several take a group at a time: see `make test`."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        group = _group(item)
        groups.setdefault(group, []).append(item)
        if getattr(item.config.option, "loadgroup", False):
            # The mark `xdist_group` does the same, but xdist 3.8 no longer finds where pytest 9.2 keeps the name.
            item._id = NodeId.parse(f"{item.nodeid}@{group}")
    items[:] = [item for group in sorted(groups, key=_place) for item in groups[group]]


def _group(item: pytest.Item) -> str:
    """What runs on one worker in one go: a file, or all that use the same running parts."""
    used = getattr(item, "fixturenames", ())
    return next((name for name in SHARED if name in used), item.path.relative_to(TESTS).as_posix())


def _place(group: str) -> int:
    """Where among all groups it begins."""
    if group in SHARED:
        return SHARED.index(group)
    folder = group.partition("/")[0]
    return len(SHARED) + (ORDER.index(folder) if folder in ORDER else len(ORDER))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """A system of which no further test follows takes the machine from all others no longer."""
    following = getattr(nextitem, "fixturenames", ())
    started = getattr(item, "funcargs", {})
    for name in SYSTEMS:
        if name in started and name not in following:
            started[name].stop()


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """A test that runs a service or the command in this process sets logging up; the next one begins afresh."""
    root, aiokafka = logging.getLogger(), logging.getLogger("aiokafka")
    handlers, level, configured = root.handlers[:], root.level, structlog.get_config()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    aiokafka.handlers.clear()  # a fixture of the session may have taken it over before the first test
    aiokafka.setLevel(logging.NOTSET)
    aiokafka.propagate = True
    structlog.configure(**configured)
