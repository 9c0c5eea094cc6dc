"""Fixtures for all rooms of tests."""

import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from tests.kafka_fixtures import kafka, private_kafka  # noqa: F401
from tests.postgres_fixtures import database, postgres, private_postgres  # noqa: F401
from tests.survival import _stages, stage  # noqa: F401
from tests.system import _battered_systems, _calm_systems, battered, system  # noqa: F401

SHARED = ("_stages", "_battered_systems", "_calm_systems", "kafka", "postgres")
"""Running parts that tests share, which live from their first use to the end of the run; those that cost most to keep first."""
WITH_PROCESSES = {"acceptance", "integration", "process"}

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # what runs behind a shell's & is deaf to Ctrl-C, and so is what it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs nothing running goes first, and what shares running parts last, file by file.

    So a mistake shows early, and idle brokers and services do not take the machine from all other tests.
    """
    latest: dict[Path, int] = {}
    for item in items:
        used = getattr(item, "fixturenames", ())
        begins = next((len(SHARED) - at for at, name in enumerate(SHARED) if name in used), 0)
        alone = item.path.parent.name not in WITH_PROCESSES
        latest[item.path] = max(latest.get(item.path, 0), 0 if alone and not begins else 1 + begins)
    items.sort(key=lambda item: latest[item.path])


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
