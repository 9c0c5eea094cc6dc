"""What a door notes on disk stays in the test's own folder."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BAILIFF_STATE_DIR", str(tmp_path / "state"))
