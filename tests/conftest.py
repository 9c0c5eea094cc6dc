"""Fixtures for all rooms of tests."""

import logging
from collections.abc import Iterator

import pytest
import structlog
from tests.kafka_fixtures import kafka, private_kafka  # noqa: F401
from tests.postgres_fixtures import database, postgres, private_postgres  # noqa: F401
from tests.survival import _stages, stage  # noqa: F401
from tests.system import _battered_systems, _calm_systems, battered, system  # noqa: F401


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
