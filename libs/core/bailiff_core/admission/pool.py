"""Admits policies, and the loss of records."""

from bailiff_core.model.policy import Policy
from bailiff_core.model.state import ENDED, PoolState
from bailiff_core.permissions import operators_with_keys
from bailiff_core.records.facts import AcceptTruncation, ApplyPolicy, PolicyApplied
from bailiff_core.records.payload import Fact

from .handlers import Context, admits
from .rejected import Rejected


@admits(ApplyPolicy)
def apply_policy(context: Context, body: ApplyPolicy) -> Fact | Rejected:
    """One that has what jobs use, and that can be changed again."""
    state, policy = context.state, body.policy
    why = in_force(state, body)
    if why is not None:
        return Rejected("already-in-force", why)
    if body.expected_revision is not None and body.expected_revision != state.policy_revision:
        return Rejected(
            "policy-changed",
            f"the policy in force is #{state.policy_revision}, this one is based on #{body.expected_revision}: "
            "get the current policy, repeat the change, and apply it",
        )
    living = [job for job in state.jobs.values() if job.phase not in ENDED]
    for job in living:
        if policy.find_class(job.class_name) is None:
            return Rejected(
                "class-in-use", f"job {job.id!r} has the class {job.class_name!r}, which is missing in the new policy"
            )
    remaining = dict.fromkeys(project.name for project in policy.projects)
    removed = dict.fromkeys(project.name for project in state.rules.projects if project.name not in remaining)
    for job in living:
        if job.project in removed:
            return Rejected(
                "project-in-use", f"job {job.id!r} is in the project {job.project!r}, which is missing in the new policy"
            )
    missing = unsupported_policy(policy, unsigned=bool(state.root_key) or context.requester.auth == "acl")
    if policy.snapshots.encrypted and not state.root_key:
        missing = "snapshots.encrypted: the nodes of this pool have no keys; create its root key first"
    if missing is not None:
        return Rejected("not-supported", missing)
    applied = PolicyApplied(policy=policy.complete(), request=context.request, enforce=body.enforce)
    return applied.model_copy(update={"reason": body.reason}) if body.reason else applied


def in_force(state: PoolState, body: ApplyPolicy) -> str | None:
    """Why applying the policy would change nothing; None: it would, as does enforcing it once more."""
    if body.enforce or state.policy != body.policy.complete():
        return None
    return f"this policy is in force already, since #{state.policy_revision}"


def unsupported_policy(policy: Policy, *, unsigned: bool) -> str | None:
    """Why the policy is refused, if it could never be changed again; else None.

    Args:
        policy: The policy.
        unsigned: Whether an operator needs no key: there is a root key, or an access list verifies names.
    """
    identity = policy.identity
    if identity.accept == ("signed",) and not identity.keys:
        return "identity: accepts signed requests only, but has no keys: it could never be changed again; add a key"
    if identity.operators and not unsigned and not operators_with_keys(policy):
        return "identity: none of the operators has a key, so that it could never be changed again; add one under keys"
    return None


@admits(AcceptTruncation)
def accept_truncation(context: Context, body: AcceptTruncation) -> Fact | Rejected:
    """Exactly the loss that the alarm names."""
    missing = context.evidence.missing
    if missing is None:
        return Rejected("nothing-lost", "no record is missing: there is no loss to accept")
    if (body.epoch, body.seq) != missing:
        return Rejected("nothing-lost", f"give what the alarm log-truncated names: #{missing[1]} of epoch {missing[0]}")
    return context.record(body)
