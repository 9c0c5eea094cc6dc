"""A signed-in user."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """User with roles. projects: those whose jobs the user may act on; None: all projects.

    subject: the user's id at the OpenID provider; empty: its name.
    """

    name: str
    groups: tuple[str, ...] = ()
    operator: bool = False
    projects: tuple[str, ...] | None = ()
    subject: str = ""
