"""Which user may make which request: the role in the console, then the policy's permissions, as admission checks them."""

from collections.abc import Iterator, Mapping

from bailiff_core.model.identity import JOB_ACTIONS, JobAction
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import PoolState
from bailiff_core.permissions import Requester, job_denial, name_denial, operator_denial, submission_denial
from bailiff_core.records.job_requests import JobChange
from bailiff_core.records.request import RECORDS

from .principal import Principal

ACTIONS: Mapping[str, JobAction] = {
    body.VERB if issubclass(body, JobChange) else action: action
    for body in RECORDS
    for action in JOB_ACTIONS
    if action == body.SENDER
}
"""By kind of request, what it does to a job."""
OF_JOBS = ("submit", *ACTIONS)
PHRASES = {"attach": "attach to", "spec": "read the command of"}
OF_NODES = ("drain", "undrain")
OF_OPERATORS = (*OF_NODES, "policy")


def denied(principal: Principal, requester: Requester, kind: str, state: PoolState, *, job: str, project: str) -> str | None:
    """Why the user may not make this request; None if admission is going to permit it. job: its target; project: the job's."""
    forbidden = refusal(principal, kind, project, state.policy)
    if forbidden is not None or state.policy is None:
        return forbidden
    found = name_denial(state.policy, requester)
    if found is None and kind in OF_OPERATORS:
        found = operator_denial(state.policy, requester)
    elif found is None and kind == "submit":
        found = submission_denial(state.policy, requester, project)
    elif found is None and job in state.jobs:
        found = job_denial(state.policy, requester, ACTIONS[kind], state.jobs[job])
    return None if found is None else f"{found.reason} (rule {found.rule})"


def logs_denied(requester: Requester, state: PoolState, job: str) -> str | None:
    """Why the user may not read the job's output. A job that is no longer in the state belongs to the operators."""
    if state.policy is None:
        return "no policy is applied in this pool yet"
    known = state.jobs.get(job)
    found = operator_denial(state.policy, requester) if known is None else job_denial(state.policy, requester, "logs", known)
    return None if found is None else f"{found.reason} (rule {found.rule})"


def refusal(principal: Principal, kind: str, project: str, policy: Policy | None) -> str | None:
    """Why the user may not make this request; None if allowed. project: the job's; empty if none."""
    if principal.operator:
        return None
    if kind == "policy":
        return f"{principal.name} may not apply a policy: operators only"
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
    return f"{principal.name} may not {PHRASES.get(kind, kind)} a job {of_project}: {allowed}"


def _with_ancestors(policy: Policy | None, project: str) -> Iterator[str]:
    parents = {each.name: each.parent for each in policy.projects} if policy is not None else {}
    current: str | None = project
    while current:
        yield current
        current = parents.pop(current, None)
