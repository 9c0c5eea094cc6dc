"""Enrolment of nodes: the one-time token that `bailiff node enrol` prints, and what an agent signs with it.

A token is `bailiff1.KEY.ROOT`: the private half of a key that the log permits for one node name, and the public root key of the
pool, so that the agent knows whom to obey. The agent signs its own public keys with it, over the canonical JSON of
`["bailiff-enrolment-1", pool, node, key, encryption_key]`: the token itself is on no topic.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from bailiff_bus.messages.reports import Enrolment
from bailiff_core.model.state import EnrolmentPermit
from bailiff_core.records import Record
from bailiff_core.records.nodes import NodeEnrolled

from .certificates import InvalidCertificate, check_certificate
from .keys import KEY_BYTES, from_text, is_signed, key_id, sign_fields, to_text

ENROLMENT_TAG = "bailiff-enrolment-1"
REPORTS_KEPT = 7 * 86_400_000_000
TOKEN_FORMAT = "bailiff1"  # noqa: S105 - the name of the format


class InvalidToken(Exception):
    """The text is not an enrolment token."""


@dataclass(frozen=True, slots=True)
class EnrolmentToken:
    """private_key: of the token, never shown. root_key: of the pool, public."""

    private_key: bytes = field(repr=False)
    root_key: str

    def text(self) -> str:
        """The token as it is printed. Whoever has it can enrol one node."""
        return f"{TOKEN_FORMAT}.{to_text(self.private_key)}.{self.root_key}"


def read_token(text: str) -> EnrolmentToken:
    """The inverse of `text`. Raises `InvalidToken`, which does not contain the text."""
    name, *parts = text.strip().split(".")
    try:
        private_key, root_key = (from_text(part) for part in parts)
    except ValueError:
        raise InvalidToken("not an enrolment token, as `bailiff node enrol` prints it") from None
    if name != TOKEN_FORMAT or len(private_key) != KEY_BYTES or len(root_key) != KEY_BYTES:
        raise InvalidToken("not an enrolment token, as `bailiff node enrol` prints it")
    return EnrolmentToken(private_key, to_text(root_key))


def sign_enrolment(token: EnrolmentToken | None, *, pool: str, node: str, key: str, encryption_key: str) -> Enrolment:
    """What an inventory carries: the node's encryption key, and the token's signature where there is a token."""
    if token is None:
        return Enrolment(encryption_key=encryption_key)
    signature = sign_fields(token.private_key, [ENROLMENT_TAG, pool, node, key, encryption_key])
    return Enrolment(encryption_key=encryption_key, token_key=key_id(token.private_key), token_signature=signature)


def is_enrolment_signed(enrolment: Enrolment, token_key: str, *, pool: str, node: str, key: str) -> bool:
    """Whether the holder of this token signed these keys for this node."""
    if enrolment.token_key != token_key or enrolment.token_signature is None:
        return False
    return is_signed(token_key, enrolment.token_signature, [ENROLMENT_TAG, pool, node, key, enrolment.encryption_key])


def enrolment_fault(
    record: Record, fact: NodeEnrolled, permit: EnrolmentPermit | None, *, root_key: str, revoked: Collection[str], known: bool
) -> str | None:
    """Why admission enrols no node so, from the log alone.

    Args:
        permit: The name's unused one before the record.
        known: Whether the name had a key before.
    """
    if fact.key in revoked:
        return f"the key {fact.key} was revoked"
    if fact.by != "certificate":
        if permit is None or permit.seq != fact.permitted_by:
            return f"no unused permit for {fact.node} allows it"
        if fact.certificate is not None:
            return "it shows a certificate, and a permit"
        if permit.token_key is None:
            same = fact.by == "operator" and permit.key == fact.key and fact.token_signature is None
            return None if same else "the permit is for another key"
        fields = [ENROLMENT_TAG, record.pool, fact.node, fact.key, fact.encryption_key]
        shown = fact.token_signature is not None and is_signed(permit.token_key, fact.token_signature, fields)
        return None if fact.by == "token" and shown else "the permitted token has not signed these keys for this name"
    if fact.permitted_by is not None or fact.token_signature is not None:
        return "it shows a permit, and a certificate"
    shown_keys = fact.certificate and (fact.certificate.name, fact.certificate.key, fact.certificate.encryption_key)
    if fact.certificate is None or shown_keys != (fact.node, fact.key, fact.encryption_key):
        return "it shows no certificate for this name and these keys"
    if known:
        return f"{fact.node} had a key already: a certificate replaces none"
    # Admission judges a report by when the broker stored it, which may be as long ago as reports are kept.
    at = min(record.time, max(fact.certificate.expires, record.time - REPORTS_KEPT))
    try:
        check_certificate(fact.certificate, root_keys=(root_key,), pool=record.pool, roles={"node"}, at=at, revoked=revoked)
    except InvalidCertificate as error:
        return str(error)
    return None
