"""`make test-gpu` on the mock: it goes as far as NVML does, and its page says which rows need a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.gpu.evictions import CASES
from tests.nvml.library import Mock, profile

pytestmark = [pytest.mark.nvml, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]


def test_the_program_that_measures_a_gpu_runs_without_one(tmp_path: Path) -> None:
    page = tmp_path / "measurements.md"
    run = [sys.executable, "-m", "tests.gpu", "--evictions", "1", "--limit", "100", "--page", str(page)]
    env = {**os.environ, **Mock(profile("t4"), tmp_path).env, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(run, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280)
    text = page.read_text()
    assert "4 × NVIDIA T4, 16 GiB (mock)" in text, done.stdout + done.stderr
    assert "This run had **no GPU**" in text
    for case in CASES:
        section = text.partition(f"## {case.title}\n")[2].partition("\n## ")[0]
        assert f"| decision to exit | {0 if case.torch else 1} |" in section, text
        assert "| process ended to memory free in NVML | 0 |" in section
        assert "FAILED" not in section
    assert text.count("– (needs a GPU)") == 4
