"""Compact placements: task indices and device numbers as range strings such as `0-3,7`."""

from collections.abc import Iterable

from .document import Count, Document


class NodeShare(Document):
    """Tasks of one gang on one node. Devices are assigned to tasks in index order, lowest number first."""

    node: Count
    tasks: str
    devices: str = ""


def ranges(numbers: Iterable[int]) -> str:
    """Returns `0-3,7` for 0, 1, 2, 3, 7."""
    ordered = sorted(numbers)
    if len(ordered) == 1:
        return str(ordered[0])
    parts: list[str] = []
    run: list[int] = []
    for number in [*ordered, None]:
        if run and number is not None and number == run[-1] + 1:
            run.append(number)
            continue
        if run:
            parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
        run = [] if number is None else [number]
    return ",".join(parts)


def numbers(text: str) -> list[int]:
    """Returns 0, 1, 2, 3, 7 for `0-3,7`. Raises `ValueError` for anything else, and for more than 100,000 numbers."""
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


def count_of(text: str) -> int:
    """Returns how many numbers `numbers` would return, without making them. Raises `ValueError` for other text."""
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
