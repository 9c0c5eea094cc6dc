"""Amounts in words: exact where they can be, and never a float."""

from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiff_core.humanize import (
    cost_text,
    count_text,
    exit_text,
    exit_value,
    gpus_text,
    memory_text,
    nearest_text,
    thousandths_text,
    with_exit_codes,
)


@pytest.mark.parametrize(
    ("milli", "text"), [(0, "0"), (4000, "4"), (10_000, "10"), (1500, "1.5"), (333, "0.333"), (100_010, "100.01"), (-500, "-0.5")]
)
def test_thousandths(milli: int, text: str) -> None:
    assert thousandths_text(milli) == text


@given(st.integers(min_value=-(10**12), max_value=10**12))
def test_thousandths_lose_nothing(milli: int) -> None:
    assert Decimal(thousandths_text(milli)) * 1000 == milli


@given(st.integers(min_value=60_000, max_value=10**15))
def test_costs_are_rounded_to_a_tenth(gpu_ms: int) -> None:
    number, unit = cost_text(gpu_ms).split()
    size = {"GPU-min": 60_000, "GPU-h": 3_600_000}[unit]
    assert Decimal(number) == (Decimal(gpu_ms) / size).quantize(Decimal("0.1"), ROUND_HALF_UP)


@pytest.mark.parametrize(
    ("micros", "text"),
    [(0, "0ms"), (512_345, "512ms"), (999_499, "999ms"), (1_499_999, "1s"), (1_500_000, "2s"), (59_700_000, "1m")],
)
def test_measurements_are_rounded_to_the_nearest_second_or_millisecond(micros: int, text: str) -> None:
    assert nearest_text(micros) == text


def test_units_are_those_that_people_would_choose() -> None:
    assert [cost_text(gpu_ms) for gpu_ms in (400, 59_400, 60_000, 3_600_000)] == [
        "0 GPU-s",
        "59 GPU-s",
        "1.0 GPU-min",
        "1.0 GPU-h",
    ]
    assert [memory_text(amount) for amount in (512, 2**30, 3 * 2**29)] == ["512B", "1GiB", "1.5GiB"]
    assert [gpus_text(milli) for milli in (0, 500, 1000, 2000)] == ["0 GPUs", "0.5 GPUs", "1 GPU", "2 GPUs"]
    assert [count_text(number, "job") for number in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]
    assert [count_text(2, thing) for thing in ("process", "stretch")] == ["2 processes", "2 stretches"]


@pytest.mark.parametrize(
    ("code", "text"), [(0, "exit code 0"), (3, "exit code 3"), (-15, "signal 15 (SIGTERM)"), (-40, "signal 40")]
)
def test_an_exit_names_its_signal(code: int, text: str) -> None:
    assert exit_text(code) == text
    assert exit_value(code) == text.removeprefix("exit code ")
    assert with_exit_codes(f"task 0 ended with exit code {code}; why") == f"task 0 ended with {text}; why"
