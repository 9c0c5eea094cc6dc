"""Seeds in bulk, and that a seed is its run: the same bytes every time, in every process.

A seed that fails prints its story, made short; `python -m tests.simulation SEED --shrink` tells it again.
"""

import hashlib
import os
import subprocess
import sys

import pytest

from .shrink import run_short
from .world import run

FEW = 20
MANY = 10_000
STEP = 10
SHRINK_S = 60.0


def _hold(seeds: range) -> None:
    for seed in seeds:
        outcome = run_short(seed, SHRINK_S)
        assert outcome.violation is None, outcome.story(last=150)


@pytest.mark.parametrize("first", range(0, FEW, STEP))
def test_nothing_that_must_never_happen_happens(first: int) -> None:
    _hold(range(first, first + STEP))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(FEW, MANY, 100))
def test_nothing_happens_in_many_more_runs(first: int) -> None:
    _hold(range(first, first + 100))


@pytest.mark.parametrize("seed", [3, 6, 29])
def test_a_seed_is_its_run(seed: int) -> None:
    one, again = run(seed), run(seed)
    assert one.witness.lines == again.witness.lines
    assert one.bytes() == again.bytes()
    assert hashlib.sha256(one.bytes()).hexdigest() == _elsewhere(seed)


def _elsewhere(seed: int) -> str:
    """The digest of the same run in another process, with other hashes."""
    program = f"import hashlib; from tests.simulation.world import run; print(hashlib.sha256(run({seed}).bytes()).hexdigest())"
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    return found.stdout.strip()
