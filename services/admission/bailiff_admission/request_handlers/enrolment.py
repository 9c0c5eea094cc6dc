"""Whose reports count: only those signed with the key that the node was enrolled with, in a pool with a root key.

An agent enrols with its inventory: by a certificate of the root key for its name, by an operator's token, or by an operator's
permit for its key.
"""

from dataclasses import dataclass

from bailiff_admission.agent_values import AgentValues
from bailiff_bus.envelope import Envelope
from bailiff_bus.messages.reports import NodeInventory, ReportBody
from bailiff_core.admission.rejected import Rejected
from bailiff_core.admission.reported import more_than_permitted
from bailiff_core.humanize import approval_advice
from bailiff_core.model.state import EnrolledNode, PoolState
from bailiff_core.records.facts import NodeEnrolled, NodeJoined, NodeWaiting
from bailiff_core.records.payload import Fact
from bailiff_log.encryption import is_encryption_key
from bailiff_log.enrolment import is_enrolment_signed
from bailiff_log.message_signatures import check_sender, check_signature, trust_of

MINUTE = 60_000_000
MAX_WAITING_PER_MINUTE = 10


@dataclass(frozen=True, slots=True)
class CheckedReport:
    """counts: whether the report has an effect. fact: about its sender; it comes before those of the report."""

    counts: bool
    fact: Fact | None = None


def check_report_sender(state: PoolState, envelope: Envelope, report: ReportBody, at: int) -> CheckedReport | Rejected:
    """Whether the report counts. at: when the broker stored it, µs. Raises `InvalidMessage` for an invalid signature."""
    if not state.root_key:
        return CheckedReport(counts=True)
    node, key = report.node, envelope.keyid
    if not envelope.sig:
        return Rejected("not-signed", f"a report of {node} needs the signature of this node's key")
    if key in state.revoked_keys:
        return Rejected("revoked-key", f"{node}: the key {key} was revoked")
    check_signature(envelope)
    known = state.enrolled.get(node)
    if known is not None and known.key == key:
        return _replayed(state, known, envelope, report) or _too_large(state, report) or CheckedReport(counts=True)
    enrolled = _enrolled(state, envelope, report, at) if isinstance(report, NodeInventory) else None
    if enrolled is not None:
        return _too_large(state, report) or CheckedReport(counts=True, fact=enrolled)
    advice = approval_advice(node)
    if known is not None:
        return Rejected("second-key", f"{node} is enrolled with another key than {key}; {advice}")
    waiting = state.waiting_nodes.get(node)
    if waiting is not None and waiting.key == key:
        return CheckedReport(counts=False)  # on record already
    if isinstance(report, NodeInventory) and _few_new(state, expected=_is_expected(state, node)):
        return CheckedReport(counts=False, fact=NodeWaiting(node=node, key=key))
    return Rejected("not-enrolled", f"{node} with the key {key} is not enrolled; {advice}")


def is_of_newest_agent(state: PoolState, envelope: Envelope, report: ReportBody, at: int) -> bool:
    """Whether the node's agent in the log, or one that has announced itself since, sent the report. at: as above.

    Where that is not certain, as in a pool without signatures, it counts as such. Raises `InvalidMessage` as above.
    """
    checked = check_report_sender(state, envelope, report, at)
    if isinstance(checked, Rejected) or not checked.counts:
        return False
    known, number = state.enrolled.get(report.node), state.node_numbers.get(report.node)
    joined = number is not None and state.nodes[number].incarnation == report.incarnation
    return joined or known is None or envelope.time > known.announced


def with_announcement(facts: list[Fact], envelope: Envelope) -> list[Fact]:
    """These facts; a node that joins by a signed inventory has the time at which it was sent."""
    if not envelope.sig:
        return facts
    return [fact.model_copy(update={"announced": envelope.time}) if isinstance(fact, NodeJoined) else fact for fact in facts]


def _replayed(state: PoolState, known: EnrolledNode, envelope: Envelope, report: ReportBody) -> Rejected | None:
    """An inventory of an earlier agent of this node must not replace the present one: anybody may have kept it."""
    number = state.node_numbers.get(report.node)
    joined = number is not None and state.nodes[number].incarnation == report.incarnation
    if isinstance(report, NodeInventory) and not joined and envelope.time <= known.announced:
        return Rejected("replayed", f"{report.node} has announced itself since this inventory was sent")
    return None


def _too_large(state: PoolState, report: ReportBody) -> Rejected | None:
    """An inventory with more devices than an operator permits: it would draw jobs that another node should run."""
    reason = more_than_permitted(state, report.node, len(report.devices)) if isinstance(report, NodeInventory) else ""
    return Rejected("too-many-devices", f"{reason}; if it is genuine: bailiff node approve --max-devices") if reason else None


def _enrolled(state: PoolState, envelope: Envelope, report: NodeInventory, at: int) -> NodeEnrolled | None:
    """How the agent enrols, if it may. Raises `InvalidMessage` for an invalid certificate."""
    enrolled = _by_permit(state, envelope, report, at) or _by_certificate(state, envelope, report, at)
    return enrolled if enrolled is not None and is_encryption_key(enrolled.encryption_key) else None


def _by_permit(state: PoolState, envelope: Envelope, report: NodeInventory, at: int) -> NodeEnrolled | None:
    permit, shown, key = state.permits.get(report.node), report.enrolment, envelope.keyid
    if permit is None or shown is None or at > permit.expires:
        return None
    if permit.token_key is not None:
        if not is_enrolment_signed(shown, permit.token_key, pool=state.pool, node=report.node, key=key):
            return None
    elif permit.key != key:
        return None
    return NodeEnrolled(
        node=report.node,
        key=key,
        encryption_key=shown.encryption_key,
        by="operator" if permit.token_key is None else "token",
        permitted_by=permit.seq,
        token_signature=shown.token_signature if permit.token_key is not None else None,
    )


def _by_certificate(state: PoolState, envelope: Envelope, report: NodeInventory, at: int) -> NodeEnrolled | None:
    """Only where the name has no other key yet."""
    if not envelope.certificate or report.node in state.enrolled:
        return None
    certificate = check_sender(envelope, trust_of(state), {"node"}, at)
    if certificate is None or certificate.name != report.node or certificate.encryption_key is None:
        return None
    return NodeEnrolled(
        node=report.node,
        key=certificate.key,
        encryption_key=certificate.encryption_key,
        by="certificate",
        certificate=certificate,
    )


def _is_expected(state: PoolState, node: str) -> bool:
    """Whether the log knows the name: an operator has permitted it, or it has joined before."""
    return node in state.permits or node in state.node_numbers


def _few_new(state: PoolState, *, expected: bool) -> bool:
    """Whether few agents began to wait in the last minute: each is a record, and whoever can write reports can invent names.

    Names that the log knows have a limit of their own, which invented ones do not use up. A node of any other name that is not
    shown as waiting enrols as well: by a token, or by a permit for the key in its agent's log.
    """
    recent = [
        name
        for name, waiting in state.waiting_nodes.items()
        if waiting.since > state.now - MINUTE and _is_expected(state, name) == expected
    ]
    return len(recent) < MAX_WAITING_PER_MINUTE


class SignedTimes(AgentValues[int]):
    """The newest time that each agent has signed, which rises with each of its messages.

    Without it a kept heartbeat, sent again and again, would show a dead node as alive.
    """

    def replayed(self, state: PoolState, report: ReportBody, time: int) -> Rejected | None:
        """A rejection unless the message is newer than all before it."""
        newest = self.get(report.node, report.incarnation)
        if newest is not None and time <= newest:
            return Rejected("replayed", f"{report.node} has sent newer reports: this one was stored before, or out of order")
        self.put(state, report.node, report.incarnation, time)
        return None
