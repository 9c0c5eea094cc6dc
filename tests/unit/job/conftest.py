"""Fixtures: a node, and the default handling of TERM."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kits.job_node import JobNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[JobNode]:
    node = JobNode(tmp_path / "node")
    yield node
    node.close()


@pytest.fixture(autouse=True)
def _term_as_it_was() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)
