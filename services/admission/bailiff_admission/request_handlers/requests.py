"""`bailiff.requests`: dispatches requests to their handlers."""

from dataclasses import dataclass

from bailiff_bus.envelope import Auth
from bailiff_bus.messages import (
    AcceptTruncation,
    ApplyPolicy,
    AttachJob,
    CancelJob,
    ChangeRootKey,
    ClearQuarantine,
    DrainNode,
    EnrolNode,
    EvictJob,
    MigrateJob,
    PauseJob,
    ReadJobSpec,
    ReplaceNode,
    RequestBody,
    ResumeJob,
    ReturnNode,
    RevokeKey,
    ScaleJob,
    SetPriorityClass,
    SubmitJob,
    UndrainNode,
)
from bailiff_core.fold.log import request_key
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import ENDED, PoolState
from bailiff_core.permissions import Requester, keys_denial, name_denial, operator_denial, operators_with_keys
from bailiff_core.records.facts import LogTruncated, PolicyApplied, RequestId
from bailiff_core.records.payload import Fact

from .attach import attach_granted
from .job_changes import cancelled, reclassified, scaled
from .keys import request_for_keys
from .nodes import request_for_node
from .operator_actions import request_for_job
from .rejected import Rejected
from .specs import spec_granted
from .submission import submitted

OPERATORS_ONLY = (
    ApplyPolicy, DrainNode, UndrainNode, ReplaceNode, ReturnNode, AcceptTruncation, ClearQuarantine, EnrolNode,
    RevokeKey, ChangeRootKey,
)  # fmt: skip
KEYS_ONLY = (EnrolNode, RevokeKey)


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request with its identity. time: the sender's, µs. digest: of its content."""

    source: str
    id: str
    digest: str
    time: int | None
    actor: str
    auth: Auth
    body: RequestBody

    @property
    def requester(self) -> Requester:
        """Who asks."""
        return Requester(self.actor, self.auth)


def facts_of_request(
    state: PoolState, received: ReceivedRequest, spec_digest: str = "", missing: tuple[int, int] | None = None
) -> list[Fact] | Rejected:
    """The fact of the request; none for a repeat; or a rejection.

    spec_digest: of a submitted job. missing: (epoch, seq) of the alarm `log-truncated`, while the writer waits for an operator.
    """
    seen = state.requests.get(request_key(received.source, received.id))
    if seen is not None:
        if seen.digest == received.digest:
            return []
        return Rejected(
            "id-reused",
            f"the id {received.id!r} of {received.source!r} was used at #{seen.seq} for another request: use a new id",
        )
    retention = state.rules.retention.request_ids
    if received.time is not None and received.time < state.now - retention:
        return Rejected(
            "expired", f"the request is older than the {retention // 86_400_000_000} days for which ids are remembered"
        )
    identity = state.rules.identity
    if received.auth not in identity.accept and not received.requester.has_root_key:
        return Rejected(
            "auth-not-accepted",
            f"this pool accepts requests with auth {', '.join(identity.accept)}; this request has auth {received.auth}",
        )
    requester = received.requester
    denial = name_denial(state.rules, requester)
    if denial is None and isinstance(received.body, KEYS_ONLY):
        denial = keys_denial(state.rules, requester)
    if denial is None and isinstance(received.body, OPERATORS_ONLY):
        denial = operator_denial(state.rules, requester)
    if denial is not None:
        return Rejected.denied(denial)
    vouched_by = received.body.vouched_by
    if vouched_by is not None and not (requester.auth == "signed" and "/" in requester.actor):
        return Rejected("malformed", "vouched_by: only a signed request in the name of a signed-in user says who vouches for it")
    request = RequestId(source=received.source, id=received.id, digest=received.digest, vouched_by=vouched_by)
    match received.body:
        case SubmitJob() as submit:
            return submitted(state, request, requester, submit, spec_digest)
        case CancelJob() as cancel:
            return cancelled(state, request, requester, cancel)
        case ScaleJob() as scale:
            return scaled(state, request, requester, scale)
        case SetPriorityClass() as change:
            return reclassified(state, request, requester, change)
        case EvictJob() | PauseJob() | ResumeJob() | MigrateJob() as job_request:
            return request_for_job(state, request, requester, job_request)
        case AttachJob() as attach:
            return attach_granted(state, request, requester, attach)
        case ReadJobSpec() as read:
            return spec_granted(state, request, requester, read)
        case DrainNode() | UndrainNode() | ReplaceNode() | ReturnNode() | ClearQuarantine() as node_request:
            return request_for_node(state, request, node_request)
        case EnrolNode() | RevokeKey() | ChangeRootKey() as key_request:
            return request_for_keys(state, request, key_request)
        case ApplyPolicy() as apply:
            return _policy(state, request, requester, apply)
        case AcceptTruncation() as accept:
            if missing is None:
                return Rejected("nothing-lost", "no record is missing: there is no loss to accept")
            if (accept.epoch, accept.seq) != missing:
                return Rejected("nothing-lost", f"give what the alarm log-truncated names: #{missing[1]} of epoch {missing[0]}")
            return [LogTruncated(request=request, epoch=accept.epoch, seq=accept.seq, reason=accept.reason)]
    return Rejected("unknown-type", f"{received.body.TYPE} is not a request")


def _policy(state: PoolState, request: RequestId, requester: Requester, apply: ApplyPolicy) -> list[Fact] | Rejected:
    if apply.expected_revision is not None and apply.expected_revision != state.policy_revision:
        return Rejected(
            "policy-changed",
            f"the policy in force is #{state.policy_revision}, this one is based on #{apply.expected_revision}: "
            "get the current policy, repeat the change, and apply it",
        )
    for job in state.jobs.values():
        if job.phase not in ENDED and apply.policy.find_class(job.class_name) is None:
            return Rejected(
                "class-in-use", f"job {job.id!r} has the class {job.class_name!r}, which is missing in the new policy"
            )
    remaining = dict.fromkeys(project.name for project in apply.policy.projects)
    removed = dict.fromkeys(project.name for project in state.rules.projects if project.name not in remaining)
    for job in state.jobs.values() if removed else ():
        if job.phase not in ENDED and job.project in removed:
            return Rejected(
                "project-in-use", f"job {job.id!r} is in the project {job.project!r}, which is missing in the new policy"
            )
    missing = unsupported_policy(apply.policy, unsigned=bool(state.root_key) or requester.auth == "acl")
    if missing is not None:
        return Rejected("not-supported", missing)
    return [PolicyApplied(policy=apply.policy.complete(), request=request, enforce=apply.enforce)]


def unsupported_policy(policy: Policy, *, unsigned: bool) -> str | None:
    """Why the policy is refused, if it could never be changed again; else None.

    unsigned: whether an operator needs no key of the policy, since there is a root key, or names are verified by an access list.
    """
    identity = policy.identity
    if identity.accept == ("signed",) and not identity.keys:
        return "identity: accepts signed requests only, but has no keys: it could never be changed again; add a key"
    if identity.operators and not unsigned and not operators_with_keys(policy):
        return "identity: none of the operators has a key, so that it could never be changed again; add one under keys"
    return None
