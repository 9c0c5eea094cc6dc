"""Which role may make which request."""

from collections.abc import Iterator

from bailiff_core.model.policy import Policy

from .principal import Principal

OF_JOBS = ("submit", "cancel", "pause", "resume", "migrate", "evict", "scale", "set")
OF_NODES = ("drain", "undrain")


def refusal(principal: Principal, kind: str, project: str, policy: Policy | None) -> str | None:
    """Why the user may not make this request; None if allowed. project: the job's; empty if none."""
    if principal.operator:
        return None
    if kind not in OF_JOBS:
        return f"{principal.name} may not {kind} nodes: operators only"
    if principal.projects is None or any(each in principal.projects for each in _with_ancestors(policy, project)):
        return None
    of_project = f"of project {project}" if project else "without a project"
    allowed = (
        f"{principal.name} may act on jobs of {', '.join(principal.projects)}"
        if principal.projects
        else f"{principal.name} has read access only"
    )
    return f"{principal.name} may not {kind} a job {of_project}: {allowed}"


def _with_ancestors(policy: Policy | None, project: str) -> Iterator[str]:
    parents = {each.name: each.parent for each in policy.projects} if policy is not None else {}
    current: str | None = project
    while current:
        yield current
        current = parents.pop(current, None)
