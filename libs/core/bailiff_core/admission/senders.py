"""Whose request it is, and whether its sender may send it. Admission asks before it looks at jobs and nodes; whoever verifies a
log asks again for each request in it, from what its records say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bailiff_core.humanize import first_names
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.identity import JOB_ACTIONS, SignIn
from bailiff_core.model.job_spec import runtime_label
from bailiff_core.model.policy import Policy, PriorityClass
from bailiff_core.permissions import (
    JobOwner,
    Requester,
    class_denial,
    job_denial,
    keys_denial,
    name_denial,
    operator_denial,
    reservation_denial,
    submission_denial,
    user_denial,
    workload_denial,
)
from bailiff_core.records.request import Sender

from .rejected import Rejected

DEFAULT_PROJECT = "default"
NAMED = 20
SENDER_DENIALS = {"operator": operator_denial, "keys": keys_denial}


class KnownJob(JobOwner, Protocol):
    """What the rules about senders look at, of a job."""

    @property
    def class_name(self) -> str:
        """Its priority class."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Whose job a submission makes it.

    Attributes:
        user_verified: Whether that name was verified.
    """

    user: str
    user_verified: bool
    project: str | None
    priority_class: PriorityClass


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for, as far as the rules about senders look at it.

    Attributes:
        sender: Who may send it.
        job: The job that it is about.
        needs_class: The priority class that it makes use of.
        project: For which it reserves GPUs; None: it is not known.
        demand: Of a submission.
        workload: The submission is a Kubernetes workload.
    """

    sender: Sender
    vouched_by: SignIn | None = None
    job: KnownJob | None = None
    needs_class: str | None = None
    project: str | None = None
    demand: JobDemand | None = None
    workload: bool = False


def unaccepted(policy: Policy, requester: Requester, vouched_by: SignIn | None) -> Rejected | None:
    """Why a request of this sender has no effect, whatever it asks for."""
    accepted = policy.identity.accept
    if requester.auth not in accepted and not requester.has_root_key:
        kinds = ", ".join(accepted)
        return Rejected(
            "auth-not-accepted", f"this pool accepts requests with auth {kinds}; this request has auth {requester.auth}"
        )
    denial = name_denial(policy, requester)
    if denial is not None:
        return Rejected.denied(denial)
    if vouched_by is not None and not (requester.auth == "signed" and "/" in requester.actor):
        return Rejected("malformed", "vouched_by: only a signed request in the name of a signed-in user says who vouches for it")
    return None


def not_permitted(policy: Policy, requester: Requester, sender: Sender) -> Rejected | None:
    """Why the sender may not send requests of this kind. Those about a job depend on the job."""
    denies = SENDER_DENIALS.get(sender)
    denial = denies(policy, requester) if denies is not None else None
    return None if denial is None else Rejected.denied(denial)


def class_for(policy: Policy, requester: Requester, name: str | None, job: str) -> PriorityClass | Rejected:
    """The priority class of that name, if it exists and the policy allows the requester to use it."""
    entry = policy.find_class(name)
    if entry is None:
        known = ", ".join(entry.name for entry in policy.priority_classes)
        return Rejected("unknown-class", f"there is no priority class {name!r}; the policy has {known}", job)
    denial = class_denial(policy, requester, entry.name)
    return entry if denial is None else Rejected.denied(denial, job)


def ownership(policy: Policy, requester: Requester, demand: JobDemand, *, workload: bool) -> Ownership | Rejected:
    """Whose job this submission makes it.

    Args:
        workload: It is a Kubernetes workload. The bridge speaks for the user who created it: the rules are those for that user.
    """
    if workload:
        denial = workload_denial(policy, requester)
        if denial is not None:
            return Rejected.denied(denial, demand.job)
        requester = Requester(demand.user or requester.actor, requester.auth)
    entry = class_for(policy, requester, demand.priority_class, demand.job)
    if isinstance(entry, Rejected):
        return entry
    user = _user_of(policy, requester, demand)
    if isinstance(user, Rejected):
        return user
    project = _project_of(policy, demand)
    if isinstance(project, Rejected):
        return project
    denial = submission_denial(policy, requester, project)
    return Ownership(user, requester.verified, project, entry) if denial is None else Rejected.denied(denial, demand.job)


def judged(policy: Policy, requester: Requester, asked: Asked) -> Rejected | Ownership | None:
    """How admission answers a request, as far as its sender decides.

    Args:
        policy: The one in force when the request was taken.
        requester: Its sender, as the record says.
        asked: What was asked for.

    Returns:
        Why it is rejected; whose job a submission makes it; None for another request that is not rejected.
    """
    found = unaccepted(policy, requester, asked.vouched_by) or not_permitted(policy, requester, asked.sender)
    if found is not None:
        return found
    if asked.demand is not None:
        return ownership(policy, requester, asked.demand, workload=asked.workload)
    if asked.job is not None and asked.sender in JOB_ACTIONS:
        denial = job_denial(policy, requester, asked.sender, asked.job)
        if denial is not None:
            return Rejected.denied(denial, asked.job.id)
    if asked.project is not None and asked.sender == "reserver":
        denial = reservation_denial(policy, requester, asked.project)
        return None if denial is None else Rejected.denied(denial)
    if asked.job is not None and asked.needs_class is not None:
        entry = class_for(policy, requester, asked.needs_class, asked.job.id)
        return entry if isinstance(entry, Rejected) else None
    return None


def may_be_workload(demand: JobDemand) -> bool:
    """Whether the job, as recorded, may be a Kubernetes workload: only its private part says so, its runtime is on record."""
    return any(group.node_labels.get(runtime_label("kubernetes")) == "true" for group in demand.tasks)


def _user_of(policy: Policy, requester: Requester, demand: JobDemand) -> str | Rejected:
    """Whose job it is: the sender's, or for an operator whoever is named. An unnamed sender's claim is only a note."""
    if demand.user is None or not requester.actor:
        return requester.actor
    denial = user_denial(policy, requester, demand.user)
    return demand.user if denial is None else Rejected.denied(denial, demand.job)


def _project_of(policy: Policy, demand: JobDemand) -> str | Rejected | None:
    known: Sequence[str] = [project.name for project in policy.projects]
    if demand.project is None:
        if not known:
            return None
        if DEFAULT_PROJECT in known:
            return DEFAULT_PROJECT
        return Rejected("no-project", f"set the job's project: the policy has {first_names(known, NAMED)}", demand.job)
    if demand.project not in known:
        there = f"the policy has {first_names(known, NAMED)}" if known else "the policy has none: remove it"
        return Rejected("unknown-project", f"there is no project {demand.project!r}; {there}", demand.job)
    return demand.project
