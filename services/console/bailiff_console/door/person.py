"""A person who has signed in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Person:
    """What the console knows of somebody. projects: those whose jobs the person may act on; None: all of them."""

    name: str
    groups: tuple[str, ...] = ()
    operator: bool = False
    projects: tuple[str, ...] | None = ()
