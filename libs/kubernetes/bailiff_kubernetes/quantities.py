"""Quantities of the API, such as `500m`, `1Gi` or `2e3`, as integers. The API rounds up, and so does this."""

import math
from decimal import Decimal, InvalidOperation

_UNITS = {
    "": Decimal(1),
    "n": Decimal(1).scaleb(-9),
    "u": Decimal(1).scaleb(-6),
    "m": Decimal(1).scaleb(-3),
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}


def quantity(text: object, *, scale: int = 1) -> int:
    """The quantity times `scale`: `quantity("500m", scale=1000)` is 500. Raises `ValueError`."""
    written = str(text).strip()
    number = written.rstrip("EKMGTPiknum")
    unit = written[len(number) :]
    if unit not in _UNITS:
        raise ValueError(f"{written!r} is not a quantity")
    try:
        value = Decimal(number)
    except InvalidOperation:
        raise ValueError(f"{written!r} is not a quantity") from None
    return math.ceil(value * _UNITS[unit] * scale)
