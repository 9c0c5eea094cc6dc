"""Who asked, from the log alone: each request in it is judged again.

`RequestVerifier` follows a log and checks for each record of a request

* that the signature, if it has one, is that of a key which was valid then, over what the record says (`signed_requests`);
* that admission accepts its sender: authentication, names, permissions, ownership, by admission's own functions
  (`bailiff_core.admission.senders`) on the policy and the owners of jobs at that record;
* that whose job a submission makes it follows from its sender, and so does the owner of its id; its defaults from the policy;
* that a node was enrolled by a certificate of the root key, or by a permit, for the keys that the record names;
* that no submission was accepted above the policy's limits of open jobs (when each request was sent is not on record, so the log
  shows no rates);
* that no request has two records, nor one long after it was made;
* that the requests of one signer were taken in the order in which they were sent (`bailiff_core.admission.request_order`);
* that a signed request which was rejected is one that admission rejects (`rejected_requests`). That needs the state before it:
  it is judged at once where the caller has that, and otherwise when the caller has folded the log again (`rejections`, `judge`).

An unsigned request proves nothing: where the policy accepts it, nobody but admission knows whether it was sent.
"""

from collections import Counter
from dataclasses import InitVar, dataclass, field, replace
from hashlib import sha256
from operator import itemgetter
from typing import TypedDict

from bailiff_bus.topics import REQUESTS
from bailiff_core.admission.rejected import Rejected
from bailiff_core.admission.request_order import RequestOrder, went_first
from bailiff_core.admission.senders import Asked, Ownership, judged, may_be_workload, unaccepted
from bailiff_core.fold.log import request_key
from bailiff_core.fold.open_jobs import keys_of, open_jobs, reached
from bailiff_core.humanize import user_text
from bailiff_core.model.identity import Auth, SignIn
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.signed_request import SignedRequest
from bailiff_core.model.state import EnrolmentPermit, PoolState
from bailiff_core.permissions import ROOT_ACTOR, Requester, sender_name
from bailiff_core.records import LogKeys, Record, facts
from bailiff_core.records.decisions import JobEnded, ReservationEnded
from bailiff_core.records.payload import Payload
from bailiff_core.records.request import RECORDS, RequestBody, RequestFact, RequestId
from bailiff_core.records.wire import time_text

from .enrolment import enrolment_fault
from .rejected_requests import UNJUDGED, Unjudged, rejection_fault, why_not_judged
from .signed_requests import Fault, admitted_fault, asked_for, content_fault, is_signed_request, signature_fault, signed_request

DAY = 86_400_000_000
FAULTS_SHOWN = 100
ENROLMENT_SHOWN_SINCE = 4
"""Before this logic, the record of an enrolment did not show what allowed it."""
ORDER_SINCE = 7
"""Before this logic, a signer's requests could pass each other when the policy changed meanwhile who that is."""
CLAIMED_NAMES_SINCE = LIMITS_SINCE = 3
"""Before this logic, a name that only an access list verified could be that of a key's holder, and jobs had no limits."""
BODIES: dict[type[Payload], type[RequestBody]] = {record: body for body, record in RECORDS.items()}
FOLLOWED = frozenset(
    {*BODIES, facts.PoolCreated, facts.InputRejected, facts.NodeEnrolled, JobEnded, facts.WriterStarted, facts.InputsLost}
)


class RequestFault(TypedDict):
    """A record whose request is not what it seems."""

    seq: int
    fault: Fault
    detail: str


class NotJudged(TypedDict):
    """Rejections that cannot be judged from the log alone.

    Attributes:
        codes: How many requests were rejected with which code.
    """

    reason: Unjudged
    detail: str
    codes: dict[str, int]


class CheckedRequests(TypedDict):
    """What was checked.

    Attributes:
        signed: Number of records of signed requests.
        unsigned: Number of records of requests that nobody signed; who sent them is not proven.
        faults: The first ones.
        not_judged: The rejections that cannot be judged from the log alone, by reason.
    """

    signed: int
    unsigned: int
    faults: list[RequestFault]
    fault_count: int
    not_judged: list[NotJudged]


def concerns_requests(record: Record) -> bool:
    """Whether `RequestVerifier` looks at this record."""
    return bool(record.request or record.auth) or type(record.data) in FOLLOWED


@dataclass(slots=True)
class OwnedJob:
    """Whose job it is."""

    id: str
    user: str
    user_verified: bool
    project: str
    class_name: str


@dataclass(slots=True)
class RequestVerifier:
    """Follows one pool's log from its first record; from a later one, what depends on earlier records is checked as far as known.

    Args:
        log_keys: Of a signed log that is followed from a later record.
    """

    pool: str
    log_keys: InitVar[LogKeys | None] = None
    _root: str = ""
    _policy: Policy | None = None
    _whole: bool = False
    _revoked: set[str] = field(default_factory=set)
    _jobs: dict[str, OwnedJob] = field(default_factory=dict)
    _reserved: dict[str, str] = field(default_factory=dict)
    _ended: dict[str, int] = field(default_factory=dict)
    _open: Counter[str] = field(default_factory=Counter)
    _enrolled: dict[str, str] = field(default_factory=dict)
    _permits: dict[str, EnrolmentPermit] = field(default_factory=dict)
    _used: dict[bytes, int] = field(default_factory=dict)
    _order: RequestOrder = field(default_factory=RequestOrder)
    _cycle: int = -1
    _policy_of_turns: Policy | None = None
    _count: Counter[str] = field(default_factory=Counter)
    _faults: list[RequestFault] = field(default_factory=list)
    _not_judged: dict[Unjudged, Counter[str]] = field(default_factory=dict)
    rejections: list[int] = field(default_factory=list)
    """Rejections of signed requests that are still to be judged."""
    before_last_rejection: str = ""
    """Hash of the record before the last of them."""

    def __post_init__(self, log_keys: LogKeys | None) -> None:
        if log_keys is not None:
            self._root, self._revoked = log_keys.root_key, set(log_keys.revoked)

    @classmethod
    def after(cls, state: PoolState) -> "RequestVerifier":
        """Of the records after this state, folded from the first one on."""
        found = cls(state.pool)
        found._root, found._revoked, found._policy, found._whole = state.root_key, set(state.revoked_keys), state.policy, True
        for job in state.jobs.values():
            found._jobs[job.id] = OwnedJob(job.id, job.user, job.user_verified, job.project, job.class_name)
        found._reserved = {each.name: each.project for each in state.gpu_reservations.values()}
        found._ended, found._open = dict(state.ended), Counter(open_jobs(state))
        found._enrolled, found._permits = {name: node.key for name, node in state.enrolled.items()}, dict(state.permits)
        found._used = {_digest(key): request.seen_at for key, request in state.requests.items()}
        return found

    def take(self, record: Record, state: PoolState | None = None) -> RequestFault | None:
        """The next record; its fault, if it is of a request that admission would have answered otherwise, or nobody has sent.

        Args:
            state: After the records before it, if the caller has it.
        """
        if not concerns_requests(record):
            return None
        if record.cycle != self._cycle:  # whose turn it was is found before a cycle takes its inputs
            self._cycle, self._policy_of_turns = record.cycle, self._policy
        self._forget(record.time)
        found = self._fault(record) or self._order_fault(record)
        if is_signed_request(record):
            self._count["signed"] += 1
        elif record.auth:
            self._count["unsigned"] += 1
        self._follow(record)
        if found is None and isinstance(record.data, facts.InputRejected):
            return self._take_rejection(record, record.data, state)
        return None if found is None else self._add(record, found)

    def _take_rejection(self, record: Record, rejected: facts.InputRejected, state: PoolState | None) -> RequestFault | None:
        """Judges it with the state before it, now or later."""
        if rejected.topic != REQUESTS.name:
            return None
        unjudged = why_not_judged(record, rejected)
        if unjudged is not None:
            self._cannot_judge(unjudged, rejected)
        elif state is not None:
            return self.judge(record, state)
        elif self._whole:
            self.rejections.append(record.seq)
            self.before_last_rejection = record.prev
        else:
            self._cannot_judge("earlier-records", rejected)
        return None

    def judge(self, record: Record, state: PoolState) -> RequestFault | None:
        """A rejection's fault, if admission accepts the request. state: after the records before it."""
        found = rejection_fault(state, record)
        if isinstance(found, tuple):
            return self._add(record, found)
        if found is not None:
            assert isinstance(record.data, facts.InputRejected)
            self._cannot_judge(found, record.data)
        return None

    def cannot_follow(self, record: Record, error: Exception) -> None:
        """The record contradicts those before it; what comes after it has no state to be judged by."""
        self._add(record, ("contradiction", f"it contradicts the records before it: {type(error).__name__}: {error}"))

    def _cannot_judge(self, reason: Unjudged, rejected: facts.InputRejected) -> None:
        self._not_judged.setdefault(reason, Counter())[rejected.code] += rejected.count

    def _add(self, record: Record, found: tuple[Fault, str]) -> RequestFault:
        fault = RequestFault(seq=record.seq, fault=found[0], detail=found[1])
        self._count["fault"] += 1
        if len(self._faults) < FAULTS_SHOWN:
            self._faults.append(fault)
        return fault

    def result(self) -> CheckedRequests:
        """What was found so far."""
        return {
            "signed": self._count["signed"],
            "unsigned": self._count["unsigned"],
            "faults": sorted(self._faults, key=itemgetter("seq")),
            "fault_count": self._count["fault"],
            "not_judged": [
                {"reason": reason, "detail": detail, "codes": dict(sorted(self._not_judged[reason].items()))}
                for reason, detail in UNJUDGED.items()
                if reason in self._not_judged
            ],
        }

    # --- what later requests are judged by

    def _follow(self, record: Record) -> None:
        self._order.follow(record)
        match record.data:
            case facts.PoolCreated() as created:
                self._root, self._whole = created.root_key or "", True
            case facts.PolicyApplied() as applied:
                self._policy = applied.policy
            case facts.RootKeyChanged() as changed:
                self._root = changed.change.key
            case facts.KeyRevoked() as revoked:
                self._revoked.add(revoked.key)
                self._enrolled = {name: key for name, key in self._enrolled.items() if key != revoked.key}
            case facts.EnrolmentPermitted() as permitted:
                self._permits[permitted.node] = EnrolmentPermit(record.seq, permitted.token_key, permitted.key, permitted.expires)
            case facts.NodeEnrolled() as enrolled:
                self._enrolled[enrolled.node] = enrolled.key
                if enrolled.permitted_by is not None:
                    self._permits.pop(enrolled.node, None)
            case facts.JobSubmitted() as submitted:
                demand = submitted.demand
                entry = self._policy.find_class(demand.priority_class) if self._policy is not None else None
                owned = OwnedJob(
                    demand.job, submitted.user, submitted.user_verified, demand.project or "", entry.name if entry else ""
                )
                self._jobs[demand.job] = owned
                self._ended.pop(demand.job, None)
                self._open.update(keys_of(owned.user, owned.user_verified, owned.project))
            case facts.JobPriorityClassChanged() as changed_class if changed_class.job in self._jobs:
                self._jobs[changed_class.job].class_name = changed_class.priority_class
            case facts.GpusReserved() as reserved:
                self._reserved[reserved.reservation] = reserved.project
            case facts.ReservationCancelled() as cancelled:
                self._reserved.pop(cancelled.reservation, None)
            case ReservationEnded() as over if over.last:
                self._reserved.pop(over.reservation, None)
            case JobEnded() as ended if ended.job in self._jobs:
                owner = self._jobs[ended.job]
                if ended.job not in self._ended:
                    self._open.subtract(keys_of(owner.user, owner.user_verified, owner.project))
                self._ended[ended.job] = record.time

    def _forget(self, now: int) -> None:
        """What admission has forgotten by now; later than it does, as the log's clock may have been stepped."""
        if self._policy is None:
            return
        retention = self._policy.retention
        while self._ended and self._ended[name := next(iter(self._ended))] < now - retention.ended_jobs - DAY:
            del self._ended[name], self._jobs[name]
        while self._used and self._used[first := next(iter(self._used))] < now - retention.request_ids - DAY:
            del self._used[first]

    # --- one record

    def _fault(self, record: Record) -> tuple[Fault, str] | None:
        signed = signed_request(record)
        if is_signed_request(record):
            fault = signature_fault(record, signed, self.pool)
            if fault is not None or signed is None:
                return fault
            fault = self._key_fault(record, signed) or content_fault(record, signed, self.pool)
            if fault is not None:
                return fault
        if isinstance(record.data, facts.InputRejected):
            return self._rejected_sender_fault(record, record.data, signed)
        if isinstance(record.data, facts.NodeEnrolled):
            return self._enrolment_fault(record, record.data)
        request = record.data.request if isinstance(record.data, RequestFact | facts.PolicyApplied) else None
        if request is None:
            first = not isinstance(record.data, facts.PolicyApplied) or self._policy is None or not self._root
            return None if first else ("no-request", "a policy that no request asked for")
        return (
            self._use_fault(record, request, signed)
            or self._sender_fault(record, request)
            or self._limit_fault(record)
            or admitted_fault(record, signed, self._policy)
        )

    def _limit_fault(self, record: Record) -> tuple[Fault, str] | None:
        """Whether admission rejects one more job of this owner."""
        fact = record.data
        if not isinstance(fact, facts.JobSubmitted) or self._policy is None or _logic(record) < LIMITS_SINCE:
            return None
        reason = reached(self._policy.limits, self._open, fact.user, fact.user_verified, fact.demand.project or "")
        return None if reason is None else _not_admissible(Rejected("too-many-jobs", reason))

    def _enrolment_fault(self, record: Record, fact: facts.NodeEnrolled) -> tuple[Fault, str] | None:
        if _logic(record) < ENROLMENT_SHOWN_SINCE or not (self._whole and self._root):
            return None
        permit, known = self._permits.get(fact.node), fact.node in self._enrolled
        reason = enrolment_fault(record, fact, permit, root_key=self._root, revoked=self._revoked, known=known)
        return None if reason is None else ("wrong-enrolment", f"{fact.node} was enrolled with the key {fact.key}: {reason}")

    def _rejected_sender_fault(
        self, record: Record, rejected: facts.InputRejected, signed: SignedRequest | None
    ) -> tuple[Fault, str] | None:
        """Whether the rejection names another sender as proven than the one who signed. Those counted together show nobody's."""
        if rejected.sender is None or rejected.topic != REQUESTS.name or rejected.count > 1 or rejected.offsets:
            return None
        if signed is None:
            return "wrong-requester", f"it names {rejected.sender} as a proven sender, and nobody signed it"
        body = asked_for(signed)
        users = [None, body.demand.user] if isinstance(body, facts.SubmitJob) else [None]
        names = {sender_name(self._policy or DEFAULT_POLICY, _requester(record), user) for user in users}
        if self._policy is None or body is None or rejected.sender in names:
            return None
        return "wrong-requester", f"{record.actor} signed it, the record names {rejected.sender}"

    def _use_fault(self, record: Record, request: RequestId, signed: SignedRequest | None) -> tuple[Fault, str] | None:
        """Within the time for which request ids are remembered a request has one effect, and afterwards none."""
        keys = _keys(request.source, request.id, record)
        if any(key in self._used for key in keys[: 1 if request.owner else None]):
            return "request-used-again", "the same request has led to an earlier record"
        self._used |= dict.fromkeys(keys[: 1 if request.owner else None], record.time)
        oldest = record.time - (self._policy or DEFAULT_POLICY).retention.request_ids - DAY
        if signed is not None and signed.time < oldest:
            return "request-used-again", f"it was signed on {time_text(signed.time)}, longer ago than request ids are remembered"
        return None

    def _order_fault(self, record: Record) -> tuple[Fault, str] | None:
        """Whether a later request of its signer's was taken before it."""
        signed, data = signed_request(record), record.data
        if signed is None or data is None or _logic(record) < ORDER_SINCE or isinstance(data, facts.LogTruncated):
            return None  # a loss of records is accepted before any other request is taken
        if self._policy is None and not self._whole:
            return None  # whose turn it was, an earlier record shows
        asked = asked_for(signed) if isinstance(data, facts.InputRejected) else data
        kind = type(asked) if isinstance(asked, RequestBody) else BODIES.get(type(data))
        if kind is None:
            return None
        user = asked.demand.user if isinstance(asked, facts.JobSubmitted | facts.SubmitJob) else None
        sender = sender_name(self._policy_of_turns or DEFAULT_POLICY, _requester(record), user)
        passed_by = self._order.passed_by(record, signed.key, sender, first=went_first(kind, _logic(record)))
        if passed_by is None:
            return None
        return "out-of-order", f"the same key signed the request at offset {passed_by}, which was taken before {record.cause}"

    def _key_fault(self, record: Record, found: SignedRequest) -> tuple[Fault, str] | None:
        keys = (
            None if self._policy is None and not self._whole else self._policy.identity.keys if self._policy is not None else {}
        )
        holder = ROOT_ACTOR if self._root and found.key == self._root else (keys or {}).get(found.key)
        actor = found.actor or holder or record.actor
        if found.key in self._revoked:
            return "unknown-request-key", f"the key {found.key} was revoked"
        if holder is None and keys is not None:
            return "unknown-request-key", f"the policy in force names no key {found.key}"
        if record.auth != "signed" or actor != record.actor:
            return "wrong-requester", f"{actor} signed it, the record names {record.actor or 'nobody'} ({record.auth or 'none'})"
        if holder is not None and actor != holder and not actor.startswith(f"{holder}/"):
            return "wrong-requester", f"the key is that of {holder}, the record names {actor}"
        return None

    def _sender_fault(self, record: Record, request: RequestId) -> tuple[Fault, str] | None:
        """Whether admission rejects the sender of this request, or makes the job another's."""
        policy, data = self._policy, record.data
        if policy is None or data is None or _follows_cordon(record, request):
            return None
        if not (record.auth or self._root):  # a simulation's log, which names no senders
            rejected = unaccepted(policy, _requester(record), request.vouched_by)
            return None if rejected is None else _not_admissible(rejected)
        name = getattr(data, "job", "")
        if name and name not in self._jobs:
            return _not_admissible(Rejected("no-such-job", f"there is no job {name!r}")) if self._whole else None
        asked, fact = self._asked(BODIES[type(data)], data, request.vouched_by), None
        if isinstance(data, facts.JobSubmitted):
            fact = data
        found = [self._judged(record, asked)]
        if fact is not None and may_be_workload(fact.demand):
            found.append(self._judged(record, replace(asked, workload=True)))
        refusals = [each for each in found if isinstance(each, Rejected)]
        if len(refusals) == len(found):
            return _not_admissible(refusals[0])
        if fact is None or not (self._root or fact.user or fact.user_verified):  # before logs were signed there were no users
            return None
        recorded = (fact.user, fact.user_verified, fact.demand.project)
        if any((each.user, each.user_verified, each.project) == recorded for each in found if isinstance(each, Ownership)):
            return None
        whose = f"{user_text(fact.user or 'an unnamed sender', fact.user_verified)} in the project {fact.demand.project or '-'}"
        return "wrong-owner", f"{_requester(record).text} sent it, the record makes it a job of {whose}"

    def _asked(self, kind: type[RequestBody], said: object, vouched_by: SignIn | None) -> Asked:
        """What the rules about senders look at, of the record of a request."""
        job, needs_class, demand, project = self._jobs.get(getattr(said, "job", "")), None, None, None
        match said:
            case facts.ReserveGpus():
                project = said.project
            case facts.CancelReservation():
                project = self._reserved.get(said.reservation)
            case facts.JobSubmitted():
                demand = said.demand
            case facts.SetPriorityClass():
                needs_class = said.priority_class
            case facts.ScaleJob() if job is not None:
                needs_class = job.class_name
        return Asked(kind.SENDER, vouched_by, job, needs_class, project, demand)

    def _judged(self, record: Record, asked: Asked) -> Rejected | Ownership | None:
        """As admission of the record's release decides it."""
        assert self._policy is not None
        found = judged(self._policy, _requester(record), asked)
        by_list = isinstance(found, Rejected) and found.rule == "key-holder-name" and record.auth == "acl"
        return None if by_list and _logic(record) < CLAIMED_NAMES_SINCE else found


def _requester(record: Record) -> Requester:
    """The sender, as the record says. A record without `auth` is of nobody verified."""
    auth: Auth = "signed" if record.auth == "signed" else "acl" if record.auth == "acl" else "none"
    return Requester(record.actor, auth)


def _not_admissible(rejected: Rejected) -> tuple[Fault, str]:
    return "not-admissible", f"admission would have rejected it ({rejected.code}): {rejected.text}"


def _logic(record: Record) -> int:
    number = record.engine.rpartition("/")[2]
    return int(number) if number.isascii() and number.isdigit() else 0


def _follows_cordon(record: Record, request: RequestId) -> bool:
    """Whether it is a drain, or its end, that admission records by itself when a node's report names a cordon."""
    data = record.data
    return (
        isinstance(data, facts.NodeDrained | facts.NodeUndrained)
        and not (record.auth or record.actor)
        and request.source == f"node/{data.node}"[:256]
        and (isinstance(data, facts.NodeUndrained) or data.reason.startswith(facts.CORDONED))
    )


def _keys(source: str, request_id: str, record: Record) -> list[bytes]:
    """What a request is remembered by: its signer's id, and in records without `owner` also as nobody's."""
    owners = [record.actor, ""] if record.auth == "signed" else [""]
    return [_digest(request_key(source, request_id, owner)) for owner in owners]


def _digest(key: str) -> bytes:
    """16 bytes, as it is remembered for weeks."""
    return sha256(key.encode()).digest()[:16]
