"""From one input message to facts: is it ours, can it be read, who sent it, and what does it mean on this state."""

from dataclasses import dataclass, field
from typing import Literal

from bailiff_bus import topics
from bailiff_bus.ambient import Ambient
from bailiff_bus.envelope import Envelope, Opened, Unacceptable
from bailiff_bus.identity import verify
from bailiff_bus.messages import (
    BegunEviction,
    GivenUpPlan,
    NodeAnnounced,
    Proposal,
    ReportBody,
    RequestBody,
    SubmitJob,
    TaskHeld,
    TaskIsReleased,
)
from bailiff_bus.messages.reports import TaskReport
from bailiff_bus.port import Message
from bailiff_core.model.pool import Pool
from bailiff_core.records.payload import Fact

from .intake import Rejected, ReportNumbers, facts_of_progress, facts_of_proposal, facts_of_report, facts_of_request
from .intake.reports import joined_node, orphans_of
from .intake.requests import Asked, digest_of_spec
from .liveness import Liveness
from .loss import Settling, look_at_report

BODIES: dict[str, tuple[type, ...]] = {
    topics.REQUESTS.name: (RequestBody,),
    topics.PROPOSALS.name: (Proposal,),
    topics.EVICTION_PROGRESS.name: (BegunEviction, GivenUpPlan),
    topics.NODE_REPORTS.name: (ReportBody,),
}


@dataclass(slots=True)
class Read:
    """What one message came to. `submitted`: the accepted job's spec is to be stored under this salt first."""

    facts: list[Fact] = field(default_factory=list)
    rejected: Rejected | None = None
    source: str | None = None
    id: str | None = None
    actor: str = ""
    auth: str = ""
    submitted: SubmitJob | None = None
    salt: bytes = b""
    spec_digest: str = ""
    missed: ReportBody | None = None


class Reading:
    """Reads messages for one domain. `strays`: also reject what names no declared domain."""

    def __init__(
        self,
        domain: str,
        strays: bool,
        declared: frozenset[str],
        ambient: Ambient,
        liveness: Liveness,
        unsigned: Literal["none", "acl"] = "none",
    ) -> None:
        self._domain, self._strays, self._declared = domain, strays, declared
        self._ambient, self._liveness, self._unsigned = ambient, liveness, unsigned
        self._numbers = ReportNumbers()
        self.orphans: dict[tuple[str, str, int, int], TaskHeld] = {}
        self.settling = Settling()

    def read(self, pool: Pool, message: Message) -> Read | None:
        """None for what is another domain's. Raises `BeyondTheLog`."""
        opened = Opened(message)
        domain = opened.domain
        if domain != self._domain and not (self._strays and domain not in self._declared):
            return None
        try:
            envelope = opened.envelope(BODIES[message.topic])
            if domain != self._domain:
                known = ", ".join(sorted(self._declared))
                return Read(rejected=Rejected("unknown-domain", f"there is no pool {domain!r}; there is {known}"))
            return self._understood(pool, message, envelope)
        except Unacceptable as refusal:
            rejected = Rejected(refusal.code, refusal.reason, refusal.job)
            return Read(rejected=rejected, source=refusal.source, id=refusal.id)

    def _understood(self, pool: Pool, message: Message, envelope: Envelope) -> Read:
        body = envelope.body
        found = Read(source=envelope.source, id=envelope.id)
        outcome: list[Fact] | Rejected
        if isinstance(body, RequestBody):
            outcome = self._request(pool, envelope, body, found)
        elif isinstance(body, Proposal):
            outcome = facts_of_proposal(pool, body)
        elif isinstance(body, BegunEviction | GivenUpPlan):
            outcome = facts_of_progress(pool, body)
        else:
            assert isinstance(body, ReportBody)
            outcome = self._report(pool, message, body, found)
        if isinstance(outcome, Rejected):
            found.rejected = outcome
        else:
            found.facts = outcome
        return found

    def _request(self, pool: Pool, envelope: Envelope, body: RequestBody, found: Read) -> list[Fact] | Rejected:
        identity = verify(envelope, pool.rules.identity.keys, unsigned=self._unsigned)
        found.actor, found.auth = identity.actor, identity.auth
        if isinstance(body, SubmitJob):
            found.salt = self._ambient.fresh()
            found.spec_digest = digest_of_spec(found.salt, body.spec)
        asked = Asked(envelope.source, envelope.id, envelope.digest, envelope.time, identity.actor, identity.auth, body)
        outcome = facts_of_request(pool, asked, found.spec_digest)
        if outcome and isinstance(outcome, list) and isinstance(body, SubmitJob):
            found.submitted = body
        return outcome

    def _report(self, pool: Pool, message: Message, report: ReportBody, found: Read) -> list[Fact]:
        self._liveness.heard(report.node, report.incarnation, message.time)
        look_at_report(pool, report)
        has_said = self.settling.heard(pool, report, message.time)
        if isinstance(report, NodeAnnounced):
            for key in [key for key in self.orphans if key[0] == report.node]:
                del self.orphans[key]
            for entry in orphans_of(pool, report):
                self.orphans[(report.node, entry.job, entry.attempt, entry.task)] = entry
        elif report.node not in pool.node_numbers:
            found.missed = report
            return []
        else:
            joined = joined_node(pool, report)
            if joined is not None and joined.state == "lost":
                found.missed = report  # it lives after all: let it announce itself, and it joins anew
        number = self._numbers.take(report, joined_node(pool, report))
        if not has_said or number == "gap" or not self._numbers.complete(report):
            found.missed = report
        if isinstance(report, TaskReport) and isinstance(report, TaskIsReleased):
            self.orphans.pop((report.node, report.job, report.attempt, report.task), None)
        return facts_of_report(pool, report) if number == "next" else []
