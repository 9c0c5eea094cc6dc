"""Exit codes that say what they mean."""

from enum import IntEnum
from typing import Self


class ExplainedCode(IntEnum):
    """Members are `NAME = number, "what it says to whoever started the process"`; the text becomes the member's docstring."""

    def __new__(cls, value: int, meaning: str) -> Self:
        """A number with its meaning as docstring."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.__doc__ = meaning
        return member
