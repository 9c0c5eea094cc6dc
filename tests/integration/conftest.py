"""Fixtures of several files."""

from tests.kits.client_pool import bus, pool  # noqa: F401
