"""`python -m tests.chaos --seed SEED --kills N`: one run; prints its seed first, and a summary at the end."""

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from .chaos_run import ChaosRun


def main() -> int:
    """The exit code: 0 if nothing was lost or duplicated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kills", type=int, default=200)
    given = parser.parse_args()
    seed = random.randrange(1_000_000) if given.seed is None else given.seed
    print(f"make chaos SEED={seed} KILLS={given.kills}", flush=True)
    with tempfile.TemporaryDirectory(prefix="bailiff-chaos-", ignore_cleanup_errors=True) as folder:
        print(asyncio.run(ChaosRun(Path(folder) / "system", seed, given.kills, lambda line: print(line, flush=True)).run()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
