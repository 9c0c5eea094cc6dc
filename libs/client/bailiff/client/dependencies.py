"""The jobs that a new job waits for: by name, an array by its name, several by a pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate

from bailiff_core.model.amounts import InvalidValue
from bailiff_core.model.state import PoolState
from bailiff_core.model.undecoded import shared_of

from .errors import InvalidRequest
from .job_parser import dependencies

PATTERN = re.compile(r"[*?\[]")
MOST = 100  # as in `JobDemand.after`


def named_dependencies(state: PoolState, given: object, user: str, own_name: str = "") -> object:
    """What the field `after` names, with each array and pattern replaced by the jobs of this user that it stands for.

    Args:
        own_name: The job that waits; it does not wait for itself.

    Returns:
        A field that cannot be read as it is, for validation to reject.

    Raises:
        InvalidRequest: A pattern matches no job, or they are too many.
    """
    try:
        wanted = [each for each in dependencies(given) if isinstance(each, dict)]
    except InvalidValue:
        return given
    if not all(isinstance(each.get("job"), str) for each in wanted):
        return given
    found: dict[str, object] = {}
    for each in wanted:
        for name in _jobs(state, each["job"], user):
            if name != own_name:
                found[name] = {**each, "job": name}
    if len(found) > MOST:
        raise InvalidRequest(
            [f"after: {len(found)} jobs, at most {MOST}"], "have the last ones wait for the others, or wait in the command"
        )
    return [*found.values()]


def _jobs(state: PoolState, name: str, user: str) -> Sequence[str]:
    """The jobs that the name stands for. Arrays and patterns match only jobs of this user: nobody else can add to them."""
    if name in state.jobs:
        return [name]
    if not PATTERN.search(name):
        return array_of(state, name, user) or [name]
    matching = sorted(_own(state, user, re.compile(translate(name))))
    if not matching:
        raise InvalidRequest([f"after: no job of {user} matches {name!r}"], "list all: bailiff list --all")
    return matching


def array_of(state: PoolState, name: str, user: str | None = None) -> list[str]:
    """The jobs of the array of this name, of one user or of all."""
    return sorted(_own(state, user, re.compile(rf"{re.escape(name)}-[0-9]+")), key=_index)


def _own(state: PoolState, user: str | None, names: re.Pattern[str]) -> list[str]:
    return [name for name in state.jobs if names.fullmatch(name) and user in (None, shared_of(state.jobs, name).user)]


def _index(name: str) -> int:
    return int(name.rpartition("-")[2])
