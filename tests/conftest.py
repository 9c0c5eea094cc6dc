"""Fixtures for all rooms of tests."""

from tests.kafka_fixtures import kafka, private_kafka  # noqa: F401
