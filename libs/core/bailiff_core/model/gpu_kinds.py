"""The kinds of GPU of which some project states a quota or a limit: models, groups of models, MIG profiles.

Each kind is divided by itself: it is a further resource after the three of `ResourceVector`, by the order of its name.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .document import MIG_PATTERN
from .resource_vector import RESOURCES, Amount

FIRST = len(RESOURCES)  # place of the first kind in a `ResourceVector`
OTHER = 0  # of a device that is of no kind: its place is that of all GPUs


class Bounded(Protocol):
    """A quota or a limit."""

    @property
    def by_model(self) -> Mapping[str, int]: ...


class Stating(Protocol):
    """A project."""

    @property
    def quota(self) -> Bounded: ...
    @property
    def limit(self) -> Bounded: ...


def names_of_kinds(projects: Iterable[Stating]) -> tuple[str, ...]:
    """The kinds that these projects name, sorted."""
    return tuple(sorted({name for project in projects for bounds in (project.quota, project.limit) for name in bounds.by_model}))


def is_profile(name: str) -> bool:
    """Whether the kind is a MIG profile, which is counted in MIG devices; else it is counted in GPUs."""
    return re.match(MIG_PATTERN, name) is not None


def resource_names(kinds: Iterable[str]) -> tuple[str, ...]:
    """The resources as sentences name them, by their place in a `ResourceVector`."""
    return (*RESOURCES, *(f"{kind} {'MIG devices' if is_profile(kind) else 'GPUs'}" for kind in kinds))


@dataclass(frozen=True, slots=True)
class GpuKinds:
    """Where in a `ResourceVector` the devices of each model and profile are counted. Without names: nowhere."""

    names: tuple[str, ...] = ()
    models: Mapping[str, int] = field(default_factory=dict)
    profiles: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, projects: Iterable[Stating], groups: Mapping[str, Sequence[str]]) -> "GpuKinds":
        """The kinds that these projects name.

        Args:
            groups: The models of each group, by its name.
        """
        names = names_of_kinds(projects)
        models: dict[str, int] = {}
        profiles: dict[str, int] = {}
        for at, name in enumerate(names, start=FIRST):
            if is_profile(name):
                profiles[name] = at
            else:
                models.update((model, at) for model in groups.get(name, (name,)))
        return cls(names, models, profiles)

    def __bool__(self) -> bool:
        return bool(self.names)

    def at(self, model: str, profile: str) -> int:
        """The place of a device's kind, `OTHER` if it is of none. A MIG device is of its profile, else of its card's model."""
        return self.profiles.get(profile, OTHER) or self.models.get(model, OTHER) if profile else self.models.get(model, OTHER)

    def amounts(self, counted: Iterable[tuple[int, Amount]]) -> tuple[Amount, ...]:
        """What follows the three resources in a vector.

        Args:
            counted: Places of kinds, with amounts; those of `OTHER` are left out.
        """
        found: list[Amount] = [0] * len(self.names)
        for at, amount in counted:
            if at:
                found[at - FIRST] += amount
        return tuple(found)


NO_KINDS = GpuKinds()
