"""Decodes one input message into facts: pool, envelope, identity, and the handler for its type."""

from dataclasses import dataclass, field, replace
from typing import Literal

from bailiff_admission.request_handlers.enrolment import SignedTimes, check_report_sender, with_announcement
from bailiff_admission.request_handlers.reports import joined_node, orphans_of
from bailiff_bus import topics
from bailiff_bus.envelope import Envelope, InvalidMessage, ReceivedMessage, pool_of
from bailiff_bus.messages.progress import AbandonPreemption, StartEviction
from bailiff_bus.messages.proposals import ProposalBatch
from bailiff_bus.messages.reports import NodeHeartbeat, NodeInventory, ReportBody, TaskReleasedReport, TaskReport, TrackedTask
from bailiff_bus.port import Message
from bailiff_core.admission import ReceivedRequest, Rejected, admit_received
from bailiff_core.model.certificate import Certificate
from bailiff_core.model.identity import Auth
from bailiff_core.model.job_spec import spec_digest, spec_of
from bailiff_core.model.state import PoolState
from bailiff_core.records.job_requests import JobSubmitted, SubmitJob
from bailiff_core.records.payload import Fact
from bailiff_core.records.request import RequestBody
from bailiff_log.keys import known_keys
from bailiff_log.message_signatures import check_sender, trust_of
from bailiff_log.rejected_requests import evidence_of
from bailiff_log.signatures import verify
from bailiff_log.signed_requests import kept_request
from bailiff_service.clock_and_ids import ClockAndIds

from .liveness import Liveness
from .rates import NearestRate, Rates
from .request_handlers import ReportNumbers, facts_of_progress, facts_of_proposal, facts_of_report
from .senders import proven_sender
from .shed_requests import above_rate
from .truncation import TruncationReconciliation, check_report

BODIES: dict[str, tuple[type, ...]] = {
    topics.REQUESTS.name: (RequestBody,),
    topics.PROPOSALS.name: (ProposalBatch,),
    topics.EVICTION_PROGRESS.name: (StartEviction, AbandonPreemption),
    topics.NODE_REPORTS.name: (ReportBody,),
}


class LatestPool:
    """As `pool_of`, computed once for a message about which all pools ask, one after the other."""

    def __init__(self) -> None:
        self._message: Message | None = None
        self._pool: str | None = None

    def __call__(self, message: Message) -> str | None:
        """The pool of the message; None if it is missing or unreadable."""
        if message is not self._message:
            self._message, self._pool = message, pool_of(message)
        return self._pool


@dataclass(slots=True)
class DecodedInput:
    """The result of one message. submitted: an accepted job; its spec (canonical JSON) must be stored with this salt first.

    sender: who has proven by a signature to have sent it.

    request: what the requester signed, for the record. missed: a report that shows that admission missed earlier reports of the
    agent. troubles: a heartbeat of an agent that has refused commands, or could not remove files. without_effect: the type of a
    valid message that changes nothing; empty for heartbeats.
    """

    facts: list[Fact] = field(default_factory=list)
    rejected: Rejected | None = None
    source: str | None = None
    id: str | None = None
    sender: str | None = None
    actor: str = ""
    auth: Auth | Literal[""] = ""
    submitted: SubmitJob | None = None
    salt: bytes = b""
    spec: bytes = b""
    request: str = ""
    missed: ReportBody | None = None
    troubles: NodeHeartbeat | None = None
    without_effect: str = ""


class InputDecoder:
    """Reads messages for one pool. strays: also reject messages that name no declared pool."""

    def __init__(
        self,
        pool: str,
        strays: bool,
        declared: frozenset[str],
        clock_and_ids: ClockAndIds,
        liveness: Liveness,
        unsigned: Literal["none", "acl"] = "none",
        latest_pool: LatestPool | None = None,
    ) -> None:
        self._latest_pool = latest_pool or LatestPool()
        self._pool, self._strays, self._declared = pool, strays, declared
        self._clock_and_ids, self._liveness, self._unsigned = clock_and_ids, liveness, unsigned
        self._numbers, self._signed_times = ReportNumbers(), SignedTimes()
        self._rates = {verified: Rates() for verified in (False, True)}  # of projects; claims use up nothing of the others
        self.orphans: dict[tuple[str, str, int, int], TrackedTask] = {}
        self.reconciliation = TruncationReconciliation()

    def wants(self, message: Message) -> bool:
        """Whether the message is for this pool, or a stray that is rejected here."""
        pool = self._latest_pool(message)
        return pool == self._pool or (self._strays and pool not in self._declared)

    def read(self, state: PoolState, message: Message) -> DecodedInput:
        """The result of a wanted message. Raises `TruncationDetected`."""
        received = ReceivedMessage(message)
        pool = received.pool
        try:
            envelope = received.envelope(BODIES[message.topic])
            if pool != self._pool:
                known = ", ".join(sorted(self._declared))
                return DecodedInput(rejected=Rejected("unknown-pool", f"there is no pool {pool!r}; known pools: {known}"))
            return self._handle(state, message, envelope)
        except InvalidMessage as error:
            rejected = Rejected(error.code, error.reason, error.job)
            return DecodedInput(rejected=rejected, source=error.source, id=error.id)

    def _handle(self, state: PoolState, message: Message, envelope: Envelope) -> DecodedInput:
        body = envelope.body
        found = DecodedInput(source=envelope.source, id=envelope.id)
        outcome: list[Fact] | Rejected
        if isinstance(body, RequestBody):
            outcome = self._request(state, message, envelope, body, found)
        else:
            try:
                outcome = self._from_participant(state, message, envelope, found)
            except InvalidMessage as error:
                outcome = Rejected(error.code, f"{envelope.source}: {error.reason}")
            if isinstance(outcome, Rejected) and state.root_key:
                found.source = found.id = None  # claims of whoever sent it: the limit of rejections must not depend on them
        if isinstance(outcome, Rejected):
            found.rejected = outcome
        else:
            found.facts = outcome
            if not outcome and not isinstance(body, NodeHeartbeat):
                found.without_effect = type(body).__name__
        return found

    def _request(
        self, state: PoolState, message: Message, envelope: Envelope, body: RequestBody, found: DecodedInput
    ) -> list[Fact] | Rejected:
        identity = verify(envelope, known_keys(state), unsigned=self._unsigned)
        found.actor, found.auth, found.request = identity.actor, identity.auth, identity.request
        found.sender = proven_sender(state, identity, body)
        digest = None
        if isinstance(body, SubmitJob):
            found.salt = self._clock_and_ids.random_bytes() if body.salt is None else bytes.fromhex(body.salt)
            found.spec = spec_of(envelope.data)
            digest = spec_digest(found.salt, found.spec)
        asked = ReceivedRequest(envelope.source, envelope.id, envelope.digest, envelope.time, identity.actor, identity.auth, body)
        outcome = self._within_project(
            state, message, admit_received(state, asked, evidence_of(state, body, digest)), found.sender
        )
        if isinstance(outcome, Rejected) and identity.auth == "signed":
            found.request = kept_request(envelope, rejected=True)
        if outcome and isinstance(outcome, list) and isinstance(body, SubmitJob):
            found.submitted = body
        return outcome

    def nearest_rate(self, now: int) -> NearestRate:
        """Of the projects. now: the broker's, µs UTC."""
        percent, name, limit = max(rates.nearest(now) for rates in self._rates.values())
        return NearestRate("project", percent, name, f"limits.project.{limit}")

    def _within_project(
        self, state: PoolState, message: Message, outcome: list[Fact] | Rejected, sender: str | None
    ) -> list[Fact] | Rejected:
        """The outcome, unless the job's project asks for more than its rates."""
        if isinstance(outcome, Rejected) or not outcome or not isinstance(outcome[0], JobSubmitted):
            return outcome
        demand, limits = outcome[0].demand, state.rules.limits.project
        if not demand.project:
            return outcome
        size, rates = len(message.value), self._rates[sender is not None]
        retry_at = rates.retry_at(demand.project, limits, size, message.time)
        if retry_at is not None:
            return replace(above_rate(demand.project, retry_at, "project"), job=demand.job)
        rates.count(demand.project, limits, size, message.time)
        return outcome

    def _from_participant(
        self, state: PoolState, message: Message, envelope: Envelope, found: DecodedInput
    ) -> list[Fact] | Rejected:
        """Raises `InvalidMessage` for a message that no certified key of the right role signed."""
        match envelope.body:
            case ProposalBatch() as proposal:
                found.sender = _role(check_sender(envelope, trust_of(state), {"victim-selection"}, message.time))
                return facts_of_proposal(state, proposal)
            case StartEviction() | AbandonPreemption() as progress:
                found.sender = _role(check_sender(envelope, trust_of(state), {"eviction-executor"}, message.time))
                return facts_of_progress(state, progress)
        report = envelope.body
        assert isinstance(report, ReportBody)
        checked = check_report_sender(state, envelope, report, message.time)
        if isinstance(checked, Rejected):
            return checked
        if state.root_key and checked.counts:
            found.sender = f"node/{report.node}"
        about_sender = [] if checked.fact is None else [checked.fact]
        if not checked.counts:
            return about_sender
        replayed = self._signed_times.replayed(state, report, envelope.time) if state.root_key else None
        outcome = replayed or self._report(state, message, report, found)
        return outcome if isinstance(outcome, Rejected) else [*about_sender, *with_announcement(outcome, envelope)]

    def _report(self, state: PoolState, message: Message, report: ReportBody, found: DecodedInput) -> list[Fact] | Rejected:
        self._liveness.observe(state, report.node, report.incarnation, message.time)
        try:
            check_report(state, report)
        except InvalidMessage:
            if not isinstance(report, NodeInventory):
                raise  # heartbeats follow the inventory, whose other content counts: they put the false claim on record
        if isinstance(report, NodeHeartbeat) and (report.refused_commands or report.left_folders):
            found.troubles = report
        inventory_known = self.reconciliation.observe(state, report, message.time)
        if isinstance(report, NodeInventory):
            for key in [key for key in self.orphans if key[0] == report.node]:
                del self.orphans[key]
            for entry in orphans_of(state, report):
                self.orphans[(report.node, entry.job, entry.attempt, entry.task)] = entry
        elif report.node not in state.node_numbers:
            found.missed = report
            return []
        else:
            joined = joined_node(state, report)
            if joined is not None and joined.state == "lost":
                found.missed = report  # the agent is alive: its inventory lets it join again
        number = self._numbers.take(state, report)
        if not inventory_known or number == "gap" or not self._numbers.complete(report):
            found.missed = report
        if isinstance(report, TaskReport) and isinstance(report, TaskReleasedReport):
            self.orphans.pop((report.node, report.job, report.attempt, report.task), None)
        return facts_of_report(state, report) if number == "next" else []


def _role(certificate: Certificate | None) -> str | None:
    """Whose key signed; None in a pool without a root key."""
    return None if certificate is None else certificate.role
