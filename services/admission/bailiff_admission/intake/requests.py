"""`bailiff.requests`: what people and programs want."""

import hashlib
from dataclasses import dataclass

from bailiff_bus.messages import (
    AcceptTruncation,
    ApplyPolicy,
    CancelJob,
    ClearQuarantine,
    DrainNode,
    EvictJob,
    JobSpec,
    MigrateJob,
    PauseJob,
    ReplaceNode,
    RequestBody,
    ReturnNode,
    ScaleJob,
    SetJob,
    SubmitJob,
    UndrainNode,
    UnpauseJob,
)
from bailiff_core.fold.log import request_key
from bailiff_core.model.policy import Policy
from bailiff_core.model.pool import ENDED, Pool
from bailiff_core.records.facts import LogTruncated, PolicyApplied, RequestId
from bailiff_core.records.payload import Fact

from .by_hand import asked_of_job
from .changes import cancelled, reclassified, scaled
from .nodes import asked_of_node
from .rejected import Rejected
from .submission import submitted

OPERATORS_ONLY = (
    ApplyPolicy, DrainNode, UndrainNode, ReplaceNode, ReturnNode, AcceptTruncation, ClearQuarantine,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """A request and who sent it when. `time` is its own, µs; `digest` is over its content."""

    source: str
    id: str
    digest: str
    time: int | None
    actor: str
    auth: str
    body: RequestBody


def facts_of_request(pool: Pool, asked: Asked, spec_digest: str = "") -> list[Fact] | Rejected:
    """The fact of the request, nothing for a repeat, or why it is refused. `spec_digest` belongs to a submitted job."""
    seen = pool.requests.get(request_key(asked.source, asked.id))
    if seen is not None:
        if seen.digest == asked.digest:
            return []
        return Rejected(
            "id-reused",
            f"the id {asked.id!r} of {asked.source!r} was used at #{seen.seq} for other content: choose a new id",
        )
    kept = pool.rules.retention.request_ids
    if asked.time is not None and asked.time < pool.now - kept:
        return Rejected("expired", f"the request is older than the {kept // 86_400_000_000} days for which ids are remembered")
    identity = pool.rules.identity
    if asked.auth not in identity.accept:
        return Rejected("not-signed", f"this pool accepts requests with auth {', '.join(identity.accept)}, this one has none")
    if isinstance(asked.body, OPERATORS_ONLY) and identity.operators and asked.actor not in identity.operators:
        return Rejected("not-permitted", "only an operator named in the policy may ask for this")
    request = RequestId(source=asked.source, id=asked.id, digest=asked.digest)
    match asked.body:
        case SubmitJob() as submit:
            return submitted(pool, request, asked.actor, submit, spec_digest)
        case CancelJob() as cancel:
            return cancelled(pool, request, cancel)
        case ScaleJob() as scale:
            return scaled(pool, request, asked.actor, scale)
        case SetJob() as change:
            return reclassified(pool, request, asked.actor, change)
        case EvictJob() | PauseJob() | UnpauseJob() | MigrateJob() as by_hand:
            return asked_of_job(pool, request, asked.actor, by_hand)
        case DrainNode() | UndrainNode() | ReplaceNode() | ReturnNode() | ClearQuarantine() as of_node:
            return asked_of_node(pool, request, of_node)
        case ApplyPolicy() as apply:
            return _policy(pool, request, apply)
        case AcceptTruncation() as accept:
            return [LogTruncated(request=request, epoch=accept.epoch, seq=accept.seq, reason=accept.reason)]
    return Rejected("unknown-type", f"{asked.body.TYPE} is not a request")


def _policy(pool: Pool, request: RequestId, apply: ApplyPolicy) -> list[Fact] | Rejected:
    if apply.expected_revision is not None and apply.expected_revision != pool.policy_revision:
        return Rejected(
            "policy-changed",
            f"the policy in force is that of #{pool.policy_revision} by now, this one was made from #{apply.expected_revision}: "
            "read it again, make the change there, and apply that",
        )
    for job in pool.jobs.values():
        if job.phase not in ENDED and apply.policy.find_class(job.class_name) is None:
            return Rejected("class-in-use", f"job {job.id!r} has the class {job.class_name!r}, which the new policy lacks")
    kept = dict.fromkeys(project.name for project in apply.policy.projects)
    gone = dict.fromkeys(project.name for project in pool.rules.projects if project.name not in kept)
    for job in pool.jobs.values() if gone else ():
        if job.phase not in ENDED and job.project in gone:
            return Rejected("project-in-use", f"job {job.id!r} is of the project {job.project!r}, which the new policy lacks")
    missing = unsupported_policy(apply.policy)
    if missing is not None:
        return Rejected("not-supported", missing)
    return [PolicyApplied(policy=apply.policy.complete(), request=request, enforce=apply.enforce)]


def unsupported_policy(policy: Policy) -> str | None:
    """What a policy asks for that nobody could take back."""
    if policy.identity.accept == ("signed",) and not policy.identity.keys:
        return "identity: only signed requests would be accepted, and no key is named: nobody could change that again"
    return None


def digest_of_spec(salt: bytes, spec: JobSpec) -> str:
    """SHA-256(salt ‖ canonical JSON of the spec), in hex."""
    return hashlib.sha256(salt + spec.to_json()).hexdigest()
