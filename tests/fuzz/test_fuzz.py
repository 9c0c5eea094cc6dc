"""Almost valid messages, in bulk: no service fails, each is rejected with a reason or harmless, memory does not grow.

A seed that fails prints the message that caused it; `python -m tests.fuzz SEED --count N` reproduces it.
"""

import pytest

from .fuzzed_system import fuzz, listing, shortest

FEW, STEP = 10_000, 2_000
MANY = 1_000_000
TOLERANCE = 32 << 20  # tolerance for the allocator; the log itself is not counted


def holds(seed: int, count: int) -> None:
    results = fuzz(seed, count)
    print(results)
    if results.violation is not None:
        pytest.fail(f"{results}\nshortest:\n{listing(shortest(results))}")
    assert results.rejected.total() > count // 3, "too few messages were rejected"
    services = [resident - log for resident, log in zip(results.memory, results.log, strict=True)]
    assert services[-1] - services[1] < TOLERANCE, results


@pytest.mark.parametrize("seed", range(FEW // STEP))
def test_no_service_fails_on_almost_valid_messages(seed: int) -> None:
    holds(seed, STEP)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 110))
def test_no_service_fails_on_a_million_messages(seed: int) -> None:
    holds(seed, MANY // 10)
