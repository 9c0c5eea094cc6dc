"""The roles file: operators, submitters by project, viewers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bailiff_bus.validation_errors import describe_errors
from bailiff_service.settings import SettingsError
from bailiff_service.yaml_files import UnreadableFile, line_of, read_yaml

from .principal import Principal

ALL_PROJECTS = "*"
Names = tuple[Annotated[str, Field(min_length=1)], ...]


class Members(BaseModel):
    """Users by name and by group."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    users: Names = ()
    groups: Names = ()

    def has(self, name: str, groups: Sequence[str]) -> bool:
        """Whether this user is a member."""
        return name in self.users or any(group in self.groups for group in groups)


class Roles(BaseModel):
    """The roles file. submitters: by project, `*` for all; they also apply to descendant projects.

    viewers: users with read access; None: everyone who can sign in.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    operators: Members = Members()
    submitters: Mapping[str, Members] = Field(default_factory=dict)
    viewers: Members | None = None

    def names_group(self, group: str) -> bool:
        """Whether any role refers to this group."""
        members = (self.operators, *self.submitters.values(), *((self.viewers,) if self.viewers is not None else ()))
        return any(group in each.groups for each in members)

    def principal(self, name: str, groups: Sequence[str] = ()) -> Principal | None:
        """The user with its roles; None without read access."""
        operator = self.operators.has(name, groups)
        projects = tuple(sorted(project for project, members in self.submitters.items() if members.has(name, groups)))
        if self.viewers is not None and not (operator or projects or self.viewers.has(name, groups)):
            return None
        all_of_them = operator or ALL_PROJECTS in projects
        return Principal(name, tuple(groups), operator, None if all_of_them else projects)


def read_roles(path: Path) -> Roles:
    """Read the file. Raises `SettingsError` with file, line and field of each fault."""
    try:
        value, lines = read_yaml(path)
        return Roles.model_validate({} if value is None else value)
    except UnreadableFile as fault:
        raise SettingsError([str(fault)]) from None
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise SettingsError([f"{path}:{line_of(lines, fault['loc'])}: {describe_errors([fault])}" for fault in faults]) from None
