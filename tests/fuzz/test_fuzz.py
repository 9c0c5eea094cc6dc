"""Almost valid messages, in bulk: no service fails, each is rejected with a reason or harmless, memory does not grow.

A seed that fails prints the message that did it; `python -m tests.fuzz SEED --count N` does it again.
"""

import pytest

from .arena import fuzz, listing, shortest

FEW, STEP = 10_000, 2_000
MANY = 1_000_000
TOLERANCE = 32 << 20  # tolerance for the allocator; the log itself is not counted


def holds(seed: int, count: int) -> None:
    tally = fuzz(seed, count)
    print(tally)
    if tally.violation is not None:
        pytest.fail(f"{tally}\nshortest:\n{listing(shortest(tally))}")
    assert tally.rejected.total() > count // 3, "most of them should be wrong"
    services = [resident - log for resident, log in zip(tally.memory, tally.log, strict=True)]
    assert services[-1] - services[1] < TOLERANCE, tally


@pytest.mark.parametrize("seed", range(FEW // STEP))
def test_no_service_fails_on_almost_valid_messages(seed: int) -> None:
    holds(seed, STEP)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 110))
def test_no_service_fails_on_a_million_messages(seed: int) -> None:
    holds(seed, MANY // 10)
