"""Fixtures of tests on complete systems."""

from tests.console_eyes import page, stack  # noqa: F401
