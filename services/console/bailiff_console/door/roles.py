"""Who may do what, from a file: operators, submitters by project, and who may look at all."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bailiff_bus.complaints import complaints
from bailiff_bus.policyfile import line_of
from bailiff_bus.settings import SettingsError
from bailiff_bus.yamlfile import UnreadableFile, read_yaml

from .person import Person

ALL_PROJECTS = "*"
Names = tuple[Annotated[str, Field(min_length=1)], ...]


class Members(BaseModel):
    """People by their names, and by groups that they are in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    users: Names = ()
    groups: Names = ()

    def has(self, name: str, groups: Sequence[str]) -> bool:
        """Whether this person is among them."""
        return name in self.users or any(group in self.groups for group in groups)


class Roles(BaseModel):
    """The file. submitters: by project, `*` for all; a project's submitters may act on those below it, too.

    viewers: who may look; none: everybody who can sign in.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    operators: Members = Members()
    submitters: Mapping[str, Members] = Field(default_factory=dict)
    viewers: Members | None = None

    def names_group(self, group: str) -> bool:
        """Whether being in it gives anybody a role."""
        members = (self.operators, *self.submitters.values(), *((self.viewers,) if self.viewers is not None else ()))
        return any(group in each.groups for each in members)

    def person(self, name: str, groups: Sequence[str] = ()) -> Person | None:
        """What this person may do; None where they may not even look."""
        operator = self.operators.has(name, groups)
        projects = tuple(sorted(project for project, members in self.submitters.items() if members.has(name, groups)))
        if self.viewers is not None and not (operator or projects or self.viewers.has(name, groups)):
            return None
        all_of_them = operator or ALL_PROJECTS in projects
        return Person(name, tuple(groups), operator, None if all_of_them else projects)


def read_roles(path: Path) -> Roles:
    """The file's roles. Raises `SettingsError` with file, line and field of each fault."""
    try:
        value, lines = read_yaml(path)
        return Roles.model_validate({} if value is None else value)
    except UnreadableFile as fault:
        raise SettingsError([str(fault)]) from None
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise SettingsError([f"{path}:{line_of(lines, fault['loc'])}: {complaints([fault])}" for fault in faults]) from None
