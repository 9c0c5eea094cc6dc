"""Who may do what to which job: the policy's table of permissions, decided from policy, requester and job alone.

Admission, the previews of command line and console, and the interfaces that show job output ask here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from .humanize import user_text
from .model.identity import JOB_ACTIONS, Auth, JobAction, is_verified
from .model.policy import Policy

ROOT_ACTOR = "root-key"
"""The actor of requests that the pool's root key has signed."""
PHRASES: dict[str, str] = {
    "set_priority_class": "change the priority class of",
    "logs": "read the output of",
    "attach": "attach to",
    "spec": "read the command of",
}


@dataclass(frozen=True, slots=True)
class Requester:
    """The sender of a request.

    Attributes:
        auth: How the sender was verified.
        permitted: Deny nothing, as where the request is on record already.
    """

    actor: str
    auth: Auth = "none"
    permitted: bool = False

    @property
    def verified(self) -> bool:
        """Whether the name was verified."""
        return is_verified(self.auth)

    @property
    def has_root_key(self) -> bool:
        """Whether the pool's root key signed the request."""
        return self.auth == "signed" and self.actor == ROOT_ACTOR

    @property
    def text(self) -> str:
        """The name for people."""
        return user_text(self.actor or "an unnamed sender", self.verified)


class JobOwner(Protocol):
    """Whose job it is."""

    @property
    def id(self) -> str:
        """The job's name."""

    @property
    def user(self) -> str:
        """Who submitted it."""

    @property
    def user_verified(self) -> bool:
        """Whether that name was verified."""

    @property
    def project(self) -> str:
        """Empty: none."""


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a request is not permitted.

    Attributes:
        rule: The name of the rule that denies it.
    """

    rule: str
    reason: str


def name_denial(policy: Policy, requester: Requester) -> Denial | None:
    """Nobody claims the name of a key's holder, or one below it, without a signature: an access list vouches for other names."""
    if requester.auth == "signed":
        return None
    holders = dict.fromkeys((*policy.identity.keys.values(), ROOT_ACTOR))
    if not any(_is_or_below(requester.actor, holder) for holder in holders):
        return None
    return Denial("key-holder-name", f"{requester.actor} is the name of a key's holder: sign the request with that key")


def operator_denial(policy: Policy, requester: Requester) -> Denial | None:
    """Requests that are not about one job are those of operators, where the policy names any."""
    if not policy.identity.operators or _is_operator(policy, requester):
        return None
    return Denial("operators", f"{requester.text} is no operator: only operators named in the policy may send this request")


def operators_with_keys(policy: Policy) -> list[str]:
    """The operators for whom a key of the policy can sign."""
    identity = policy.identity
    holders = dict.fromkeys(identity.keys.values())
    signs_in = any(holder in identity.sign_ins for holder in holders)
    return [name for name in identity.operators if signs_in or any(_is_or_below(name, holder) for holder in holders)]


def keys_denial(policy: Policy, requester: Requester) -> Denial | None:
    """Whoever enrols or revokes decides who is trusted: only the root key, and operators that the policy names."""
    if _is_operator(policy, requester):
        return None
    return Denial(
        "keys",
        f"{requester.text} may not: only the root key, or an operator named in the policy, by a signed request: "
        "bailiff … --key ROOT_KEY_FILE",
    )


def oversees(policy: Policy, requester: Requester, job: JobOwner) -> bool:
    """Whether an operator whom the policy names, or the root key, looks after another's job."""
    return _is_operator(policy, requester) and not owns(policy, requester, job)


def owns(policy: Policy, requester: Requester, job: JobOwner) -> bool:
    """Whether it is the requester's job. A claimed name owns what was submitted in the same claimed name only."""
    return _owns(policy, requester, Requester(job.user, "signed" if job.user_verified else "none"))


def submission_denial(policy: Policy, requester: Requester, project: str | None) -> Denial | None:
    """Who may submit to this project."""
    if _is_operator(policy, requester) or _is_project_admin(policy, requester, project or ""):
        return None
    where, submitters = _submitters(policy, project or "")
    if submitters is not None:
        if _is_named(policy, requester, submitters):
            return None
        return Denial("project-submitters", f"{requester.text} is none of the submitters of the project {where}")
    allowed = policy.identity.permissions.submit
    if "anyone" in allowed or ("operator" in allowed and not policy.identity.operators):
        return None
    return Denial("permissions.submit", f"{requester.text} may not submit jobs{_listed(allowed)}")


def reservation_denial(policy: Policy, requester: Requester, project: str) -> Denial | None:
    """Who may reserve GPUs for this project, and cancel that."""
    allowed = policy.reservations.who
    if requester.permitted or _is_operator(policy, requester):
        return None
    if "project-admin" in allowed and _is_project_admin(policy, requester, project):
        return None
    if "anyone" in allowed:
        return submission_denial(policy, requester, project)
    if "operator" in allowed and not policy.identity.operators:
        return None
    return Denial("reservations.who", f"{requester.text} may not reserve GPUs for project {project}{_listed(allowed)}")


def user_denial(policy: Policy, requester: Requester, user: str) -> Denial | None:
    """Who may submit a job for this user."""
    if user == requester.actor or _is_operator(policy, requester):
        return None
    reason = f"{requester.text} may not submit jobs for {user!r}: only operators that the policy names may"
    return Denial("submit-for-others", reason)


def workload_denial(policy: Policy, requester: Requester) -> Denial | None:
    """Who may submit a Kubernetes workload: the bridges that the policy names, as themselves or for a user; else operators."""
    bridges = policy.kubernetes.bridges
    if not bridges:
        return operator_denial(policy, requester)
    if requester.verified and any(_is_or_below(requester.actor, bridge) for bridge in bridges):
        return None
    return Denial("kubernetes.bridges", f"{requester.text} is no Kubernetes bridge: only those may submit a workload")


def class_denial(policy: Policy, requester: Requester, class_name: str) -> Denial | None:
    """Who may submit to this priority class."""
    users = policy.identity.class_users.get(class_name)
    if users is None or _is_named(policy, requester, users):
        return None
    return Denial("class-users", f"the policy does not let {requester.text} use the class {class_name!r}")


def sender_name(policy: Policy, requester: Requester, user: str | None = None) -> str:
    """The user that a verified request counts as: its key's holder, or whom the holder signs in.

    A holder's own sub-names are one user, so that nobody is many.

    Args:
        user: For whom the request submits a job; it counts where a Kubernetes bridge does.
    """
    person = _person(policy, requester.actor)
    if person != requester.actor:
        return person
    holder = next((name for name in policy.identity.keys.values() if _is_or_below(requester.actor, name)), requester.actor)
    return f"{holder}/{user}" if user and holder in policy.kubernetes.bridges else holder


def job_denial(policy: Policy, requester: Requester, action: JobAction, job: JobOwner) -> Denial | None:
    """Who may do this to the job."""
    if requester.permitted:
        return None
    allowed: Sequence[str] = getattr(policy.identity.permissions, action)
    owner = Requester(job.user, "signed" if job.user_verified else "none")
    what = f"{PHRASES.get(action, action)} {job.id}, a job of {owner.text}"
    if owner.verified and not requester.verified and not (action == "logs" and "anyone" in allowed):
        return Denial("verified-owner", f"{requester.text} may not {what}: sign the request")
    if (
        "anyone" in allowed
        or ("owner" in allowed and _owns(policy, requester, owner))
        or ("project-admin" in allowed and _is_project_admin(policy, requester, job.project))
        or ("operator" in allowed and _acts_as_operator(policy, requester, owner))
    ):
        return None
    return Denial(f"permissions.{action}", f"{requester.text} may not {what}{_listed(allowed)}")


def lost_permissions(before: Policy, after: Policy, requester: Requester) -> list[str]:
    """What the requester may do under one policy and could no longer do under another, as in `use the class train`.

    Whoever has a key under the other policy is taken to sign with it, and an access list to verify who has none. Projects and
    classes that only one of them has say nothing.
    """
    if requester.has_root_key:
        return []
    keys, remaining = _own_keys(before, requester), _own_keys(after, requester)
    later = Requester(requester.actor, "signed" if remaining else "none" if keys else "acl")
    lost = ["sign requests, as it names no key of yours"] if keys and not remaining else []
    if requester.auth in before.identity.accept and not {requester.auth, later.auth}.intersection(after.identity.accept):
        lost.append(f"send requests, as it accepts only {' and '.join(after.identity.accept)} ones")
    may = dict(_permissions(after, later))
    return [*lost, *(what for what, permitted in _permissions(before, requester) if permitted and not may.get(what, True))]


def _own_keys(policy: Policy, requester: Requester) -> list[str]:
    return [key for key, holder in policy.identity.keys.items() if _is_or_below(requester.actor, holder)]


def _permissions(policy: Policy, requester: Requester) -> Iterator[tuple[str, bool]]:
    yield "send the requests of operators", operator_denial(policy, requester) is None
    yield "decide which keys are trusted", keys_denial(policy, requester) is None
    yield "submit jobs without a project", submission_denial(policy, requester, None) is None
    for project in policy.projects:
        yield f"submit jobs to the project {project.name}", submission_denial(policy, requester, project.name) is None
    for entry in policy.priority_classes:
        yield f"use the class {entry.name}", class_denial(policy, requester, entry.name) is None
    for action in JOB_ACTIONS:
        allowed = getattr(policy.identity.permissions, action)
        yield f"{PHRASES.get(action, action)} your jobs", "owner" in allowed or "anyone" in allowed


def _listed(allowed: Sequence[str]) -> str:
    return f"; permitted: {', '.join(allowed) or 'nobody'}"


def _owns(policy: Policy, requester: Requester, owner: Requester) -> bool:
    """A claimed name equals the same claimed name only. The holder of a key owns what names below its own have submitted."""
    if not requester.verified or not owner.verified:
        return requester.verified == owner.verified and requester.actor == owner.actor
    return _is_or_below(owner.actor, requester.actor) or _person(policy, requester.actor) == _person(policy, owner.actor)


def _acts_as_operator(policy: Policy, requester: Requester, owner: Requester) -> bool:
    """Where the policy names no operators everybody is one, but not for the jobs of verified owners."""
    return _is_operator(policy, requester) or (not policy.identity.operators and not owner.verified)


def _is_operator(policy: Policy, requester: Requester) -> bool:
    return requester.has_root_key or _is_named(policy, requester, policy.identity.operators)


def _is_project_admin(policy: Policy, requester: Requester, project: str) -> bool:
    return any(_is_named(policy, requester, admins) for _, admins, _ in _upwards(policy, project))


def _submitters(policy: Policy, project: str) -> tuple[str, Sequence[str] | None]:
    """The nearest project upwards that names submitters, and these."""
    return next(((name, named) for name, _, named in _upwards(policy, project) if named is not None), ("", None))


def _upwards(policy: Policy, project: str) -> Iterator[tuple[str, Sequence[str], Sequence[str] | None]]:
    """Name, admins and submitters of the project and of those above it."""
    known = {each.name: each for each in policy.projects} if project else {}
    current = known.get(project)
    while current is not None:
        yield current.name, current.admins, current.submitters
        current = known.get(current.parent or "")


def _is_named(policy: Policy, requester: Requester, names: Sequence[str]) -> bool:
    if requester.permitted:
        return True
    return requester.verified and (requester.actor in names or _person(policy, requester.actor) in names)


def _person(policy: Policy, actor: str) -> str:
    """Whom a sign-in vouches for: `ada` for `console/ada`, where the policy trusts the sign-ins of `console`."""
    holder, _, person = actor.partition("/")
    return person if person and holder in policy.identity.sign_ins else actor


def _is_or_below(name: str, holder: str) -> bool:
    return bool(holder) and (name == holder or name.startswith(f"{holder}/"))
