"""A signed-in user."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """User with roles. projects: those whose jobs the user may act on; None: all projects."""

    name: str
    groups: tuple[str, ...] = ()
    operator: bool = False
    projects: tuple[str, ...] | None = ()
