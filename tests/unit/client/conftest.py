"""What most tests of the client use: a pool with a preemption that is going on, and the command on it."""

from pathlib import Path

import pytest
from tests.unit.client.kit import AnsweringBus, LogWriter, Run, command_on, preemption_story


@pytest.fixture(scope="session")
def _preemption() -> LogWriter:
    return preemption_story(LogWriter())


@pytest.fixture
def log_writer(_preemption: LogWriter) -> LogWriter:
    return _preemption.copied()


@pytest.fixture
def bailiff(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    return command_on(lambda: AnsweringBus(log_writer), monkeypatch, str(tmp_path / "cache"))
