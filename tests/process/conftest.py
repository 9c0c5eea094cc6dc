"""Fixtures of tests on complete systems."""

from tests.kits.browser import browser  # noqa: F401
from tests.kits.console_eyes import page, stack  # noqa: F401
