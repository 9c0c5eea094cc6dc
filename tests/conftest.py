"""Fixtures for all rooms of tests."""

import logging
from collections.abc import Iterator

import pytest
import structlog
from tests.kafka_fixtures import kafka, private_kafka  # noqa: F401
from tests.system import _battered_systems, _calm_systems, battered, system  # noqa: F401


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """A test that runs a service or the command in this process sets logging up; the next one begins afresh."""
    loggers = [logging.getLogger(), logging.getLogger("aiokafka")]
    kept = [(logger, logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    configured = structlog.get_config()
    yield
    for logger, handlers, level, propagate in kept:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate
    structlog.configure(**configured)
