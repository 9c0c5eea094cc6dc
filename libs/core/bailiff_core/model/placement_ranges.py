"""Compact placements: task indices and device numbers as range strings such as `0-3,7`."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Annotated

from .document import Count, Document
from .privacy import Treatment

Ranges = Annotated[str, Treatment("ranges")]


class NodeShare(Document):
    """Tasks of one gang on one node. Devices are assigned to tasks in index order, lowest number first."""

    node: Count
    tasks: Ranges
    devices: Ranges = ""


def ranges(numbers: Iterable[int]) -> str:
    """Returns `0-3,7` for 0, 1, 2, 3, 7."""
    return ",".join([str(first) if first == last else f"{first}-{last}" for first, last in runs(numbers)])


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Returns the first and last of each run: (0, 3) and (7, 7) for 0, 1, 2, 3, 7."""
    ordered = sorted(numbers)
    if not ordered:
        return []
    ends = [at for at in range(1, len(ordered)) if ordered[at] != ordered[at - 1] + 1]
    return [(ordered[first], ordered[after - 1]) for first, after in pairwise((0, *ends, len(ordered)))]


def numbers(text: str) -> list[int]:
    """Returns 0, 1, 2, 3, 7 for `0-3,7`.

    Raises:
        ValueError: For anything else, and for more than 100,000 numbers.
    """
    if text.isdecimal():
        return [int(text)]
    found: list[int] = []
    for part in text.split(",") if text else []:
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if high < low or low < 0 or len(found) + high - low > 100_000:
            raise ValueError(f"{part!r} is not a range")
        found.extend(range(low, high + 1))
    return found


def runs_of(text: str) -> list[range]:
    """Returns 0 to 3 and 7 for `0-3,7`, without making the numbers.

    Raises:
        ValueError: For other text.
    """
    parts = [part.partition("-") for part in text.split(",") if part]
    return [range(int(first), int(last or first) + 1) for first, _, last in parts]


def count_of(text: str) -> int:
    """Returns how many numbers `numbers` would return, without making them.

    Raises:
        ValueError: For other text.
    """
    found = 0
    for part in text.split(",") if text else []:
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal() or int(last or first) < int(first):
            raise ValueError(f"{part[:40]!r} is not a range")
        found += int(last or first) - int(first) + 1
    return found


def bits(mask: int) -> list[int]:
    """Returns the numbers of the set bits, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
