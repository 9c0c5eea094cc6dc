"""Fixtures of the contract suites."""

from tests.kits.browser import browser  # noqa: F401
