"""Pools made by hand for the rules' own tests, and stories for what becomes of them in a turn."""

from tests.unit.core.conftest import story, tell

__all__ = ["story", "tell"]
