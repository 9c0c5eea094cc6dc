"""A plain program: it knows nothing of Bailiff and saves nothing. It estimates pi by chance, and keeps all it has in memory."""

import random
import sys
import time
from pathlib import Path

TRIES, ROUNDS_A_LINE, ROUND_SECONDS = 200, 25, 0.02


def estimate(rounds: int, hurry: Path | None = None) -> str:
    """Returns what the last line says. hurry: rounds take their time until this file exists; none: they never do."""
    chance, inside = random.Random(7), 0  # noqa: S311 - no secret
    for number in range(1, rounds + 1):
        inside += sum(chance.random() ** 2 + chance.random() ** 2 < 1 for _ in range(TRIES))
        if hurry is not None and number % ROUNDS_A_LINE == 0:
            print(f"round {number} of {rounds}")
        if hurry is not None and not hurry.exists():
            time.sleep(ROUND_SECONDS)
    return f"pi is about {4 * inside / (rounds * TRIES)}"


if __name__ == "__main__":
    print(f"done: {estimate(int(sys.argv[1]), Path(sys.argv[2]))}")
