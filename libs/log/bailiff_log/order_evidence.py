"""Evidence that a record existed: a command that named it, signed by admission or the executor.

The signature of a command covers its `subject`: pool, node, and the positions that the command names. So an agent can show
which record it has obeyed without the command's data. A log that lacks this record was truncated; without evidence, what an
agent says about records beyond the log is not believed.
"""

from collections.abc import Collection

from pydantic import ValidationError

from bailiff_bus.envelope import Envelope
from bailiff_bus.messages.commands import CommandBody, JobCommand
from bailiff_bus.messages.reports import OrderEvidence
from bailiff_core.model.certificate import Certificate

from .certificates import InvalidCertificate, check_certificate
from .keys import is_signed
from .message_signatures import MESSAGE_TAG

Position = tuple[int, int]


class InvalidEvidence(Exception):
    """The evidence shows nothing. The text says why."""


def subject_of(body: CommandBody, pool: str) -> str:
    """The `subject` of a command: pool, node, the record that ordered it (0.0: none), and its sender's epoch."""
    epoch, seq = (body.ordered_by.epoch, body.ordered_by.seq) if isinstance(body, JobCommand) else (0, 0)
    return f"{pool}/{body.node}/{epoch}.{seq}/{body.sender_epoch}"


def evidence_of(envelope: Envelope) -> OrderEvidence:
    """The evidence that a signed command is."""
    each = envelope
    return OrderEvidence(
        digest=each.digest,
        source=each.source,
        id=each.id,
        time=each.time,
        subject=each.subject,
        sig=each.sig,
        certificate=each.certificate,
    )


def shown_positions(
    evidence: OrderEvidence, *, pool: str, node: str, root_keys: Collection[str], revoked: Collection[str]
) -> tuple[Position, Position]:
    """The positions that the signed command named: the record that ordered it, and (its sender's epoch, 0).

    Raises `InvalidEvidence`. An expired certificate still shows what it signed; a revoked one does not.
    """
    try:
        certificate = Certificate.model_validate_json(evidence.certificate)
        check_certificate(
            certificate,
            root_keys=root_keys,
            pool=pool,
            roles=("admission", "eviction-executor"),
            at=certificate.not_before,
            revoked=revoked,
        )
    except (ValidationError, InvalidCertificate) as error:
        reason = str(error) if isinstance(error, InvalidCertificate) else "its certificate is not valid"
        raise InvalidEvidence(reason) from None
    fields = [MESSAGE_TAG, evidence.digest, evidence.source, evidence.id, evidence.time, evidence.subject]
    if not is_signed(certificate.key, evidence.sig, fields):
        raise InvalidEvidence("its signature is not that of the command's sender")
    of_pool, of_node, ordered_by, sender_epoch = evidence.subject.split("/")
    if (of_pool, of_node) != (pool, node):
        raise InvalidEvidence(f"it is a command to {of_node} of {of_pool}")
    epoch, _, seq = ordered_by.partition(".")
    return (int(epoch), int(seq)), (int(sender_epoch), 0)
