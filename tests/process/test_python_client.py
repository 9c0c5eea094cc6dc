"""The Python client on a running system: the examples of its page and the notebook, run as they stand, from top to bottom."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.kits.system import System

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "how-to" / "python.md"
NOTEBOOK = DOCS / "notebooks" / "python-client.ipynb"


@pytest.fixture
async def settings(system: System, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[None]:
    """The variables with which a person reaches pool-a."""
    for name, value in system.stack.kafka_environment("operator").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("BAILIFF_POOL", "pool-a")
    monkeypatch.setenv("BAILIFF_CACHE", str(tmp_path))
    monkeypatch.setenv("BAILIFF_ACTOR", "ada")
    async with system.watch("pool-a") as pool:
        yield
        await pool.verify()


def run(parts: list[str], name: str) -> None:
    """Runs these parts one after the other, in one namespace."""
    made: dict[str, Any] = {"__name__": name}
    try:
        for number, part in enumerate(parts):
            exec(compile(part, f"{name} {number}", "exec"), made)
    finally:
        if "b" in made:
            made["b"].close()


async def test_the_examples_of_the_page_run_in_order(settings: None, capsys: pytest.CaptureFixture[str]) -> None:
    _, *parts = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    await asyncio.to_thread(run, parts, PAGE.name)
    printed = capsys.readouterr().out
    for text in ("python-first succeeded after", "\ncancelled\n", "python-train-r2 succeeded", "job-exists", "\nTrue "):
        assert text in printed
    assert "['succeeded', 'succeeded', 'succeeded']" in printed


async def test_the_notebook_runs_from_top_to_bottom(settings: None, capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not [cell for cell in cells if cell.get("outputs")], "the notebook is kept without its output"
    await asyncio.to_thread(run, ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"], NOTEBOOK.name)
    printed = capsys.readouterr().out
    assert "it would preempt:" in printed
    assert "notebook-train of ada" in printed
    assert "preempted by notebook-urgent" in printed
    assert "\nok " in printed
