"""Fixtures for all rooms of tests."""

from tests.kafka_fixtures import kafka, private_kafka  # noqa: F401
from tests.system import _battered_systems, _calm_systems, battered, system  # noqa: F401
