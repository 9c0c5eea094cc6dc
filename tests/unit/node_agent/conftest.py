"""Fixtures of several files."""

from tests.unit.node_agent.lease import node  # noqa: F401
