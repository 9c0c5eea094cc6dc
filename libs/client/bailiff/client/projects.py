"""Policies with one project added, changed or removed."""

from collections.abc import Mapping
from typing import Any

from bailiff_core.model.policy import Policy, Project
from bailiff_core.model.state import ENDED, PoolState

from .errors import ProjectNotFound, UsageError


def with_new(policy: Policy, name: str, fields: Mapping[str, Any]) -> Policy:
    """The policy with one project added, as the youngest.

    Raises:
        ClientError: The project exists or is invalid.
    """
    if any(project.name == name for project in policy.projects):
        raise UsageError(f"project {name!r} exists already", f"to change it: bailiff project update {name}")
    created = max((project.created for project in policy.projects), default=0) + 1
    return _with_projects(policy, [*_documents(policy), _changed({"name": name, "created": created}, fields)])


def with_changed(policy: Policy, name: str, fields: Mapping[str, Any]) -> Policy:
    """The policy with these fields of one project changed; quota, limit and weight one by one. Raises `ClientError`."""
    find(policy, name)
    documents = _documents(policy)
    for document in documents:
        if document["name"] == name:
            document.update(_changed(document, fields))
    return _with_projects(policy, documents)


def without(policy: Policy, name: str) -> Policy:
    """The policy without the project.

    Raises:
        ClientError: The project is unknown or has subprojects.
    """
    find(policy, name)
    children = [project.name for project in policy.projects if project.parent == name]
    if children:
        advice = "delete them first, or move them: bailiff project update CHILD --parent OTHER"
        raise UsageError(f"project {name} has subprojects: {', '.join(children)}", advice)
    return _with_projects(policy, [document for document in _documents(policy) if document["name"] != name])


def find(policy: Policy, name: str) -> Project:
    """The project of that name.

    Raises:
        ProjectNotFound: There is no project of that name.
    """
    for project in policy.projects:
        if project.name == name:
            return project
    raise ProjectNotFound.named(name, (project.name for project in policy.projects))


def users_of(state: PoolState, name: str) -> list[str]:
    """Jobs of this project, without subprojects, that have not ended."""
    return [job.id for job in state.jobs.values() if job.project == name and job.phase not in ENDED]


def _changed(document: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields merged into the document, at every depth; None within a field: it states that no more."""
    found = dict(document)
    for field, value in fields.items():
        if isinstance(value, Mapping):
            merged = _changed(found.get(field) or {}, value)
            found[field] = {name: each for name, each in merged.items() if each is not None or name not in value}
        else:
            found[field] = value
    return found


def _documents(policy: Policy) -> list[dict[str, Any]]:
    return [project.model_dump(mode="json") for project in policy.projects]


def _with_projects(policy: Policy, projects: list[dict[str, Any]]) -> Policy:
    from pydantic import ValidationError

    from bailiff_bus.validation_errors import describe_errors

    data = policy.model_dump(mode="json")
    try:
        return Policy.model_validate({**data, "projects": projects}, strict=False)
    except ValidationError as error:
        raise UsageError(describe_errors(error.errors(include_url=False)).removeprefix("data: ")) from None
