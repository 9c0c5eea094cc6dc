"""Signed requests as records keep them: what was signed, whether it was, and whether the record says the same.

A record that a signed request caused has the header `ce_request`: key, signature, and what was signed, without what is private
(`SignedRequest`). `request_verifier` judges the requests of a log with it.
"""

from collections.abc import Mapping
from typing import Any, Literal

import orjson
from pydantic import ValidationError

from bailiff_bus.envelope import Envelope, content_digest
from bailiff_bus.topics import REQUESTS
from bailiff_core.admission.submission import with_defaults
from bailiff_core.canonical import json_bytes
from bailiff_core.engine import LOGIC
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.identity import SignIn
from bailiff_core.model.job_spec import ADDED_LABELS, JobSpec
from bailiff_core.model.message import MESSAGE_TYPES
from bailiff_core.model.policy import Policy
from bailiff_core.model.signed_request import SignedRequest
from bailiff_core.records import Record, facts
from bailiff_core.records.job_requests import SubmitJob
from bailiff_core.records.payload import Fact
from bailiff_core.records.pool_requests import ApplyPolicy
from bailiff_core.records.request import RECORDS, RequestBody

from .keys import is_signed

SIGNED_TAG = "bailiff-request-1"
MAX_REJECTED_DATA = 2_000
Fault = Literal[
    "no-signed-request",
    "unreadable-request",
    "bad-request-signature",
    "unknown-request-key",
    "wrong-requester",
    "not-what-was-signed",
    "request-used-again",
    "out-of-order",
    "no-request",
    "not-admissible",
    "wrong-owner",
    "not-as-admitted",
    "wrongly-rejected",
    "wrong-enrolment",
    "contradiction",
]

RECORDS_BY_TYPE = {body.TYPE: record for body, record in RECORDS.items()}
NOT_RECORDED = ("vouched_by", "expected_revision")
"""Members of requests that their record does not have, or has in `request`."""
BY_ADMISSION = ("request", "user", "user_verified")
FILLED_DEMAND = ("project", "max_failures", "elastic", "checkpoint")
"""Members of a demand that admission completes, if they are left out."""


def kept_request(envelope: Envelope, *, rejected: bool = False) -> str:
    """What a record keeps of this signed request. rejected: only the digest of what is long."""
    long = rejected and len(envelope.public) > MAX_REJECTED_DATA
    return (
        SignedRequest(
            key=envelope.keyid,
            sig=envelope.sig,
            type=envelope.type,
            source=envelope.source,
            id=envelope.id,
            time=envelope.time,
            actor=envelope.actor,
            data="" if long else envelope.public.decode(),
            digest=envelope.digest if long else None,
        )
        .to_json()
        .decode()
    )


def signed_request(record: Record) -> SignedRequest | None:
    """What the requester signed; None if the request was not signed, or this cannot be read."""
    try:
        return SignedRequest.model_validate_json(record.request) if record.request else None
    except ValidationError:
        return None


def is_signed_request(record: Record) -> bool:
    """Whether the record says that a signed request caused it."""
    return bool(record.request) or record.auth == "signed"


def signing_key(record: Record) -> str:
    """The key that signed the request of this record; empty if none did."""
    found = signed_request(record)
    return "" if found is None else found.key


def asked_for(found: SignedRequest) -> RequestBody | None:
    """What was signed as a request, a submission without its private part; None where it is not kept, or is none."""
    try:
        kind = MESSAGE_TYPES.get(found.type)
        if kind is SubmitJob:
            members = orjson.loads(found.data)
            demand = JobDemand.model_validate_json(json_bytes(members["demand"]))
            vouched_by = members.get("vouched_by") and SignIn.model_validate_json(json_bytes(members["vouched_by"]))
            return SubmitJob.model_construct(demand=demand, spec=JobSpec.model_construct(), vouched_by=vouched_by)
        body = kind.model_validate_json(found.data) if kind is not None and found.data else None
    except (ValueError, KeyError, TypeError):  # pydantic's errors are ValueErrors, too
        return None
    return body if isinstance(body, RequestBody) else None


def signature_fault(record: Record, found: SignedRequest | None, pool: str) -> tuple[Fault, str] | None:
    """Why the record of a signed request does not show that its key signed it."""
    if not record.request:
        return "no-signed-request", f"it names {record.actor} as verified by a signature, and has none"
    if found is None:
        return "unreadable-request", "what was signed cannot be read"
    if not is_signed(found.key, found.sig, [SIGNED_TAG, request_digest(record, found, pool), found.source, found.id, found.time]):
        return "bad-request-signature", f"the signature does not fit the request of {record.actor} and the key {found.key}"
    return None


def content_fault(record: Record, found: SignedRequest, pool: str) -> tuple[Fault, str] | None:
    """Whether the record says what was signed."""
    if record.data is None:
        return None  # of a later release
    if isinstance(record.data, facts.InputRejected):
        same = record.data.topic == REQUESTS.name and (record.data.source, record.data.id) == (found.source, found.id)
        if record.data.offsets is not None:
            return "not-what-was-signed", "a request that was rejected unread has no signature on record"
        return None if same else ("not-what-was-signed", "another request was signed than the one that it rejects")
    named = getattr(record.data, "request", None)
    if named is None or (named.source, named.id, named.digest) != (found.source, found.id, request_digest(record, found, pool)):
        return "not-what-was-signed", "another request was signed than the one that it names"
    if type(record.data) is not RECORDS_BY_TYPE.get(found.type):
        return "not-what-was-signed", f"{found.type} was signed"
    try:
        differing = _differences(record.data, found, record.actor)
    except (ValueError, KeyError) as error:  # pydantic's errors are ValueErrors, too
        return "unreadable-request", f"what was signed is not valid: {type(error).__name__}"
    return ("not-what-was-signed", f"signed with another {', '.join(differing)}") if differing else None


def admitted_fault(record: Record, found: SignedRequest | None, policy: Policy | None) -> tuple[Fault, str] | None:
    """Whether what admission adds to a request is other than what it adds: the owner of its id, and defaults.

    Args:
        policy: In force before the record, if it is known.
    """
    named = getattr(record.data, "request", None)
    if named is None or record.engine.rpartition("/")[2] != str(LOGIC):
        return None
    owner = record.actor if found is not None else ""
    if named.owner != owner:
        return "not-as-admitted", f"its id is recorded as that of {named.owner or 'nobody'}, not of {owner or 'nobody'}"
    if found is None or policy is None or not isinstance(record.data, facts.JobSubmitted):
        return None
    recorded = record.data.demand
    expected = with_defaults(policy, JobDemand.model_validate_json(json_bytes(orjson.loads(found.data)["demand"])))
    by_terminal = recorded.checkpoint == "job" and expected.checkpoint in (None, "auto")  # only the private part shows one
    names = [name for name in FILLED_DEMAND if name != "project" and (name != "checkpoint" or not by_terminal)]
    differing = [name for name in names if getattr(recorded, name) != getattr(expected, name)]
    return ("not-as-admitted", f"admission completes it with another {', '.join(differing)}") if differing else None


def request_digest(record: Record, found: SignedRequest, pool: str) -> str:
    """Digest of the data; only a rejection may have the digest in its place: every other record must show what was signed."""
    digest = content_digest(found.type, pool, found.data.encode(), found.actor)
    return found.digest or digest if isinstance(record.data, facts.InputRejected) else digest


def _differences(fact: Fact, found: SignedRequest, actor: str) -> list[str]:
    """The members in which the fact differs from what was signed."""
    signed = orjson.loads(found.data)
    recorded = _members(fact.to_data() if not isinstance(fact, facts.PolicyApplied) else _policy_members(fact))
    vouched_by, named = signed.get("vouched_by"), getattr(fact, "request").vouched_by  # noqa: B009 - not of every fact
    differing = [] if vouched_by == (named and named.to_data()) else ["vouched_by"]
    if isinstance(fact, facts.JobSubmitted):
        if fact.user not in (actor, signed["demand"].get("user")) or not fact.user_verified:
            differing.append("user")
        if signed["spec_digest"] != fact.spec_digest:
            differing.append("spec_digest")
        demand = JobDemand.model_validate_json(json_bytes(signed["demand"]))
        return [*differing, *(f"demand.{name}" for name in _demand_differences(demand, fact.demand))]
    body = MESSAGE_TYPES[found.type].model_validate_json(found.data)
    expected = _members(body.to_data())
    if isinstance(fact, facts.PolicyApplied) and isinstance(body, ApplyPolicy) and fact.policy.claims is not None:
        expected["policy"] = body.policy.complete().to_data()  # records of before the claims have none
    if isinstance(fact, facts.DeviceClearRequested) and str(expected.get("device", "")).isdigit():
        expected["device"] = recorded["device"]  # given by its number, recorded by its id
    if isinstance(fact, facts.AttachGranted):
        expected |= {name: recorded[name] for name in ("attempt", "node")}  # where the task ran at the time
    return [*differing, *(name for name in {**expected, **recorded} if expected.get(name) != recorded.get(name))]


def _policy_members(fact: facts.PolicyApplied) -> dict[str, Any]:
    """Without members at their default, as a request: the record has all of them."""
    set_members = {"enforce": fact.enforce, "reason": fact.reason}
    return {"policy": fact.policy.to_data(), **{name: value for name, value in set_members.items() if value}}


def _members(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in (*NOT_RECORDED, *BY_ADMISSION)}


def _demand_differences(signed: JobDemand, recorded: JobDemand) -> list[str]:
    expected, given = signed.to_data(), recorded.to_data()
    filled = [name for name in FILLED_DEMAND if name not in expected or (name, expected[name]) == ("checkpoint", "auto")]
    differing = [
        name for name in {**expected, **given} if name not in (*filled, "tasks") and expected.get(name) != given.get(name)
    ]
    return differing + ([] if _same_tasks(signed, recorded) else ["tasks"])


def _same_tasks(signed: JobDemand, recorded: JobDemand) -> bool:
    """Whether the tasks are the same, but for the labels that admission adds."""
    return signed.tasks == recorded.tasks or signed.tasks == tuple(
        group.model_copy(update={"node_labels": _without_added(group.node_labels)}) for group in recorded.tasks
    )


def _without_added(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in labels.items() if not name.startswith(ADDED_LABELS)}
