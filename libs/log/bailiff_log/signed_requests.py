"""Who asked: signed requests as records keep them, and their check from the log alone.

A record that a signed request caused has the header `ce_request`: key, signature, and what was signed, without what is private
(`SignedRequest`). `RequestVerifier` follows a log and checks for each record of a request

* that the signature is that of the key over these contents;
* that the key was one that the policy in force names for the record's actor, or the pool's root key, and not revoked;
* that the record is what was signed: same job, demand, reason, policy, digest of the spec;
* that no signature was used for two records, nor long after it was made.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from hashlib import sha256
from typing import Any, Literal, TypedDict

import orjson
from pydantic import ValidationError

from bailiff_bus.envelope import Envelope, content_digest
from bailiff_bus.messages import MESSAGE_TYPES
from bailiff_bus.messages.requests import ADDED_LABELS
from bailiff_bus.topics import REQUESTS
from bailiff_core.canonical import json_bytes
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.policy import RetentionRules
from bailiff_core.model.signed_request import SignedRequest
from bailiff_core.model.state import PoolState
from bailiff_core.permissions import ROOT_ACTOR
from bailiff_core.records import LogKeys, Record, facts
from bailiff_core.records.payload import Fact
from bailiff_core.records.wire import time_text

from .keys import is_signed

SIGNED_TAG = "bailiff-request-1"
DAY = 86_400_000_000
MAX_REJECTED_DATA = 2_000
FAULTS_SHOWN = 100
Fault = Literal[
    "no-signed-request", "unreadable-request", "bad-request-signature", "unknown-request-key", "wrong-requester",
    "not-what-was-signed", "request-used-again",
]  # fmt: skip

RESULTS: Mapping[str, type[Fact]] = {
    "bailiff.SubmitJob.v1": facts.JobSubmitted,
    "bailiff.CancelJob.v1": facts.JobCancelled,
    "bailiff.ScaleJob.v1": facts.JobScaled,
    "bailiff.SetPriorityClass.v1": facts.JobPriorityClassChanged,
    "bailiff.EvictJob.v1": facts.JobEvictionRequested,
    "bailiff.PauseJob.v1": facts.JobPaused,
    "bailiff.ResumeJob.v1": facts.JobResumed,
    "bailiff.MigrateJob.v1": facts.JobMigrationRequested,
    "bailiff.AttachJob.v1": facts.AttachGranted,
    "bailiff.ReadJobSpec.v1": facts.JobSpecGranted,
    "bailiff.DrainNode.v1": facts.NodeDrained,
    "bailiff.UndrainNode.v1": facts.NodeUndrained,
    "bailiff.ApplyPolicy.v1": facts.PolicyApplied,
    "bailiff.ReplaceNode.v1": facts.NodeReplaced,
    "bailiff.ReturnNode.v1": facts.NodeReturned,
    "bailiff.ClearQuarantine.v1": facts.DeviceClearRequested,
    "bailiff.AcceptTruncation.v1": facts.LogTruncated,
    "bailiff.EnrolNode.v1": facts.EnrolmentPermitted,
    "bailiff.RevokeKey.v1": facts.KeyRevoked,
    "bailiff.ChangeRootKey.v1": facts.RootKeyChanged,
}
"""The record that each request leads to."""
NOT_RECORDED = ("vouched_by", "expected_revision")
"""Members of requests that their record does not have, or has in `request`."""
BY_ADMISSION = ("request", "user", "user_verified")
ABOUT_KEYS = (facts.PoolCreated, facts.PolicyApplied, facts.RootKeyChanged, facts.KeyRevoked)
FILLED_DEMAND = ("project", "max_failures", "elastic")
"""Members of a demand that admission completes, if they are left out."""


class RequestFault(TypedDict):
    """A record whose request is not what it seems."""

    seq: int
    fault: Fault
    detail: str


class CheckedRequests(TypedDict):
    """signed: number of records of signed requests, all checked. unsigned: of requests that nobody signed. faults: the first."""

    signed: int
    unsigned: int
    faults: list[RequestFault]
    fault_count: int


def kept_request(envelope: Envelope, *, rejected: bool = False) -> str:
    """What a record keeps of this signed request. rejected: only the digest of what is long."""
    long = rejected and len(envelope.public) > MAX_REJECTED_DATA
    return (
        SignedRequest(
            key=envelope.keyid, sig=envelope.sig, type=envelope.type, source=envelope.source, id=envelope.id, time=envelope.time,
            actor=envelope.actor, data="" if long else envelope.public.decode(), digest=envelope.digest if long else None,
        )
        .to_json()
        .decode()
    )  # fmt: skip


def signed_request(record: Record) -> SignedRequest | None:
    """What the requester signed; None if the request was not signed, or this cannot be read."""
    try:
        return SignedRequest.model_validate_json(record.request) if record.request else None
    except ValidationError:
        return None


def is_signed_request(record: Record) -> bool:
    """Whether the record says that a signed request caused it."""
    return bool(record.request) or record.auth == "signed"


def concerns_requests(record: Record) -> bool:
    """Whether `RequestVerifier` looks at this record."""
    return bool(record.request or record.auth) or isinstance(record.data, ABOUT_KEYS)


def signing_key(record: Record) -> str:
    """The key that signed the request of this record; empty if none did."""
    found = signed_request(record)
    return "" if found is None else found.key


def signature_digest(signature: str) -> bytes:
    """The signature as it is remembered: 16 bytes instead of 86."""
    return sha256(signature.encode()).digest()[:16]


def oldest_used(state: PoolState) -> int:
    """Signatures of requests recorded before this time need not be remembered: a repetition is too old itself."""
    retention = RetentionRules() if state.policy is None else state.policy.retention
    return state.now - retention.request_ids - DAY


@dataclass(slots=True)
class RequestVerifier:
    """Follows one pool's log from its first record; from a later one, keys of the policy are checked from the first policy on.

    log_keys: of a signed log that is followed from a later record.
    """

    pool: str
    log_keys: InitVar[LogKeys | None] = None
    _root: str = ""
    _keys: dict[str, str] | None = None
    _retention: int = RetentionRules().request_ids
    _revoked: set[str] = field(default_factory=set)
    _used: dict[bytes, int] = field(default_factory=dict)
    _count: Counter[str] = field(default_factory=Counter)
    _faults: list[RequestFault] = field(default_factory=list)

    def __post_init__(self, log_keys: LogKeys | None) -> None:
        if log_keys is not None:
            self._root, self._revoked = log_keys.root_key, set(log_keys.revoked)

    @classmethod
    def after(cls, state: PoolState, used: Mapping[bytes, int]) -> "RequestVerifier":
        """Of the records after this state. used: signatures of earlier requests (`signature_digest`), the oldest first, and when
        they were recorded.
        """
        found = cls(state.pool)
        found._root, found._revoked, found._used = state.root_key, set(state.revoked_keys), dict(used)
        found._keys = {}
        if state.policy is not None:
            found._keys, found._retention = state.policy.identity.keys, state.policy.retention.request_ids
        return found

    def take(self, record: Record) -> RequestFault | None:
        """The next record; its fault, if it names somebody as verified who did not request it."""
        fault = None
        if is_signed_request(record):
            self._count["signed"] += 1
            found = self._fault(record)
            if found is not None:
                fault = RequestFault(seq=record.seq, fault=found[0], detail=found[1])
                self._count["fault"] += 1
                if len(self._faults) < FAULTS_SHOWN:
                    self._faults.append(fault)
        elif record.auth:
            self._count["unsigned"] += 1
        self._follow_keys(record)
        return fault

    def remembers(self, signature: str) -> bool:
        """Whether another record with this signature is a fault. Not that of a request that was only rejected."""
        return signature_digest(signature) in self._used

    def result(self) -> CheckedRequests:
        """What was found so far."""
        return {
            "signed": self._count["signed"], "unsigned": self._count["unsigned"], "faults": list(self._faults),
            "fault_count": self._count["fault"],
        }  # fmt: skip

    def _follow_keys(self, record: Record) -> None:
        match record.data:
            case facts.PoolCreated() as created:
                self._root, self._keys = created.root_key or "", {}
            case facts.PolicyApplied() as applied:
                self._keys, self._retention = applied.policy.identity.keys, applied.policy.retention.request_ids
            case facts.RootKeyChanged() as changed:
                self._root = changed.change.key
            case facts.KeyRevoked() as revoked:
                self._revoked.add(revoked.key)

    def _fault(self, record: Record) -> tuple[Fault, str] | None:
        if not record.request:
            return "no-signed-request", f"it names {record.actor} as verified by a signature, and has none"
        found = signed_request(record)
        if found is None:
            return "unreadable-request", "what was signed cannot be read"
        digest = found.digest or content_digest(found.type, self.pool, found.data.encode(), found.actor)
        if not is_signed(found.key, found.sig, [SIGNED_TAG, digest, found.source, found.id, found.time]):
            return "bad-request-signature", f"the signature does not fit the request of {record.actor} and the key {found.key}"
        return self._key_fault(record, found) or _content_fault(record, found, digest) or self._use_fault(record, found)

    def _use_fault(self, record: Record, found: SignedRequest) -> tuple[Fault, str] | None:
        """Within the time for which request ids are remembered a request has one effect, and afterwards none."""
        if isinstance(record.data, facts.InputRejected):
            return None
        oldest = record.time - self._retention - DAY
        while self._used and (first := next(iter(self._used))) and self._used[first] < oldest:
            del self._used[first]
        signature = signature_digest(found.sig)
        if signature in self._used:
            return "request-used-again", "the same signed request has led to an earlier record"
        self._used[signature] = record.time
        if found.time < oldest:
            return "request-used-again", f"it was signed on {time_text(found.time)}, longer ago than request ids are remembered"
        return None

    def _key_fault(self, record: Record, found: SignedRequest) -> tuple[Fault, str] | None:
        holder = ROOT_ACTOR if self._root and found.key == self._root else (self._keys or {}).get(found.key)
        actor = found.actor or holder or record.actor
        if found.key in self._revoked:
            return "unknown-request-key", f"the key {found.key} was revoked"
        if holder is None and self._keys is not None:
            return "unknown-request-key", f"the policy in force names no key {found.key}"
        if record.auth != "signed" or actor != record.actor:
            return "wrong-requester", f"{actor} signed it, the record names {record.actor or 'nobody'} ({record.auth or 'none'})"
        if holder is not None and actor != holder and not actor.startswith(f"{holder}/"):
            return "wrong-requester", f"the key is that of {holder}, the record names {actor}"
        return None


def _content_fault(record: Record, found: SignedRequest, digest: str) -> tuple[Fault, str] | None:
    """Whether the record says what was signed."""
    if record.data is None:
        return None  # of a later release
    if isinstance(record.data, facts.InputRejected):
        same = record.data.topic == REQUESTS.name and (record.data.source, record.data.id) == (found.source, found.id)
        return None if same else ("not-what-was-signed", "another request was signed than the one that it rejects")
    named = getattr(record.data, "request", None)
    if named is None or (named.source, named.id, named.digest) != (found.source, found.id, digest):
        return "not-what-was-signed", "another request was signed than the one that it names"
    if type(record.data) is not RESULTS.get(found.type):
        return "not-what-was-signed", f"{found.type} was signed"
    try:
        differing = _differences(record.data, found, record.actor)
    except (ValueError, KeyError) as error:  # pydantic's errors are ValueErrors, too
        return "unreadable-request", f"what was signed is not valid: {type(error).__name__}"
    return ("not-what-was-signed", f"signed with another {', '.join(differing)}") if differing else None


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
    expected = _members(MESSAGE_TYPES[found.type].model_validate_json(found.data).to_data())
    if isinstance(fact, facts.DeviceClearRequested) and str(expected.get("device", "")).isdigit():
        expected["device"] = recorded["device"]  # given by its number, recorded by its id
    if isinstance(fact, facts.AttachGranted):
        expected |= {name: recorded[name] for name in ("attempt", "node")}  # where the task ran at the time
    return [*differing, *(name for name in {**expected, **recorded} if expected.get(name) != recorded.get(name))]


def _policy_members(fact: facts.PolicyApplied) -> dict[str, Any]:
    """Without members at their default, as a request: the record has all of them."""
    return {"policy": fact.policy.to_data(), **({"enforce": True} if fact.enforce else {})}


def _members(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in (*NOT_RECORDED, *BY_ADMISSION)}


def _demand_differences(signed: JobDemand, recorded: JobDemand) -> list[str]:
    expected, given = signed.to_data(), recorded.to_data()
    filled = [name for name in FILLED_DEMAND if name not in expected]
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
