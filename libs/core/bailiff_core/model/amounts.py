"""Amounts as people write them in job files, snapshots and options: into thousandths."""

from decimal import Context, Decimal, Inexact, InvalidOperation

from bailiff_core.humanize import value_text

LARGEST_AMOUNT = 10**12  # keeps the arithmetic quick
EXACT = Context(traps=[Inexact, InvalidOperation])  # a number with more digits than it computes with is an error, not rounded
CORES = "cores such as 2, 1.5 or 500m"
FRACTION = "a fraction of a GPU from 0.1 to 1, as in 0.5"


class InvalidValue(ValueError):
    """An invalid value. The text has what was found and what is expected."""


def found_text(value: object) -> str:
    """The value as an error names it."""
    return "nothing" if value is None else value_text(value)


def thousandths(value: object, wanted: str) -> int:
    """`1.5` as 1500. `wanted` is what the error says is expected.

    Raises:
        InvalidValue: If it is not a number, negative, or finer than a thousandth.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InvalidValue(f"expected {wanted}, found {found_text(value)}")
    try:
        amount = Decimal(str(value).strip())
        is_sound = amount.is_finite() and 0 <= amount <= LARGEST_AMOUNT
        found = EXACT.multiply(amount, 1000) if is_sound else amount
    except (ArithmeticError, ValueError):  # ValueError: an integer of thousands of digits has no text
        is_sound = False
    if not is_sound:
        raise InvalidValue(f"expected {wanted}, found {found_text(value)}")
    if found != found.to_integral_value():
        raise InvalidValue(f"expected {wanted}, in steps of 0.001, found {found_text(value)}")
    return int(found)


def cores(value: object) -> int:
    """Millicores from `2`, `1.5` or `500m`."""
    text = value.strip().removesuffix("m") if isinstance(value, str) and value.strip().endswith("m") else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else thousandths(value, CORES)


def gpu_fraction(value: object, wanted: str = FRACTION) -> int:
    """Thousandths of a GPU from `0.5`."""
    found = thousandths(value, wanted)
    if not 100 <= found <= 1000:
        raise InvalidValue(f"expected {wanted}, found {found_text(value)}")
    return found
