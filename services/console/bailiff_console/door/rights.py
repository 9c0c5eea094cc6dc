"""Which role may ask for what."""

from collections.abc import Iterator

from bailiff_core.model.policy import Policy

from .person import Person

OF_JOBS = ("submit", "cancel", "pause", "resume", "migrate", "evict", "scale", "set")
OF_NODES = ("drain", "undrain")


def refusal(person: Person, kind: str, project: str, policy: Policy | None) -> str | None:
    """Why this person may not ask for that, in a sentence; None where they may. project: the job's; empty where it has none."""
    if person.operator:
        return None
    if kind not in OF_JOBS:
        return f"{person.name} may not {kind} nodes: that is for operators"
    if person.projects is None or any(each in person.projects for each in _with_those_above(policy, project)):
        return None
    whose = f"of the project {project}" if project else "without a project"
    has = f"{person.name} may act on jobs of {', '.join(person.projects)}" if person.projects else f"{person.name} may only look"
    return f"{person.name} may not {kind} a job {whose}: {has}"


def _with_those_above(policy: Policy | None, project: str) -> Iterator[str]:
    parents = {each.name: each.parent for each in policy.projects} if policy is not None else {}
    at: str | None = project
    while at:
        yield at
        at = parents.pop(at, None)
