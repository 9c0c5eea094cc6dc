"""`kill -9` at random, under load: a few in the quick run, two hundred in the long one. `make chaos` runs another seed."""

from pathlib import Path

import pytest

from .chaos_run import ChaosRun

pytestmark = pytest.mark.kafka


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("seed", "kills"), [pytest.param(1, 8), pytest.param(2, 200, marks=(pytest.mark.long, pytest.mark.timeout(3600)))]
)
async def test_random_kills_lose_nothing_and_duplicate_nothing(tmp_path: Path, seed: int, kills: int) -> None:
    print(f"make chaos SEED={seed} KILLS={kills}")
    print(await ChaosRun(tmp_path, seed, kills).run())
