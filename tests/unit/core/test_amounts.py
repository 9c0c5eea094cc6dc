"""Amounts that people write are read exactly, or refused with what was expected."""

import pytest

from bailiff_core.model.amounts import InvalidValue, cores, thousandths


@pytest.mark.parametrize(("written", "read"), [(2, 2000), ("1.5", 1500), (0.001, 1), (" 4 ", 4000), ("500m", 500), (0, 0)])
def test_cores_are_read_in_thousandths(written: object, read: int) -> None:
    assert cores(written) == read


NO_AMOUNTS = {
    "finer than a thousandth": "0.0001",
    "finer by its forty-second digit": "0.1" + "0" * 40 + "1",
    "negative": -1,
    "negative millicores": "-5m",
    "above the largest amount": 2**53,
    "an integer of 5,001 digits": 10**5000,
    "an exponent of nine digits": "1e999999999",
    "no number": "nan",
    "without end": float("inf"),
    "a unit alone": "m",
    "a truth value": True,
    "nothing": None,
    "a list": [],
    "empty": "",
}


@pytest.mark.parametrize("written", NO_AMOUNTS.values(), ids=NO_AMOUNTS)
def test_what_is_no_amount_in_thousandths_is_refused(written: object) -> None:
    with pytest.raises(InvalidValue, match=r"^expected cores.*, found "):
        thousandths(written, "cores")
    with pytest.raises(InvalidValue, match=r"^expected cores.*, found "):
        cores(written)
