"""How many examples a property, or a table, is tried with in `make quick`, `make test` and `make test-long`."""

import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

EXPLORES = os.environ.get("BAILIFF_TEST_EXAMPLES") == "all"
"""Whether Hypothesis draws other examples in each run, as in `make test-long`, or always the same ones."""
SHARE = 1 if EXPLORES else 3


def share(count: int) -> int:
    """All in `make test-long`, else a share, of `count` examples that are made from seeds."""
    return -(-count // SHARE)


def examples(count: int) -> settings:
    """Try this many examples, or a share of them. Each may be large, and slow to make."""
    return settings(max_examples=share(count), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def one_in(number: int, cases: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Parameters of a table of combinations: `make quick` tries one in this many, `make test` all."""
    return [case if at % number == 0 else pytest.param(*case, marks=pytest.mark.slow) for at, case in enumerate(cases)]
