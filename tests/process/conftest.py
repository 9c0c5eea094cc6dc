"""Fixtures of stories on whole systems."""

from tests.console_eyes import page, stack  # noqa: F401
