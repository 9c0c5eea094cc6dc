"""Pools for tests of single rules, and stories for their effect in a cycle."""

from tests.unit.core.conftest import story, tell

__all__ = ["story", "tell"]
