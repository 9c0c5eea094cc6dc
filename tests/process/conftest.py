"""Fixtures of tests on complete systems."""

from tests.kits.console_eyes import browser, page, stack  # noqa: F401
