"""Signatures of messages between participants: commands, reports, proposals, progress, telemetry.

A message carries `keyid` and `sig` as a signed request does, over the canonical JSON of
`["bailiff-message-1", digest, source, id, time, subject]`, and the sender's certificate in the attribute `certificate`.
`digest` is that of the envelope: type, pool, actor and data.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Unpack

from pydantic import ValidationError

from bailiff_bus.envelope import Attributes, Envelope, content_digest, wrap
from bailiff_bus.port import Headers
from bailiff_core.model.certificate import Certificate, Role
from bailiff_core.model.message import MessageBody
from bailiff_core.model.state import PoolState

from .certificates import InvalidCertificate, check_certificate
from .credentials import Credentials
from .keys import is_signed, key_id, sign_fields

MESSAGE_TAG = "bailiff-message-1"


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose messages have an effect in a pool. root_keys: public; empty: the pool has none, so messages are not signed.

    revoked: keys that have no effect any more.
    """

    root_keys: Collection[str] = ()
    revoked: Collection[str] = ()


def wrap_signed(credentials: Credentials | None, body: MessageBody, **attributes: Unpack[Attributes]) -> tuple[Headers, bytes]:
    """As `wrap`, with a signature and the certificate. Without credentials the message is not signed."""
    if credentials is None:
        return wrap(body, **attributes)
    return wrap_with_key(credentials.private_key, body, credentials.certificate, **attributes)


def wrap_with_key(
    private_key: bytes, body: MessageBody, certificate: Certificate | None = None, **attributes: Unpack[Attributes]
) -> tuple[Headers, bytes]:
    """As `wrap`, signed with this key; nodes that are enrolled need no certificate."""
    key = key_id(private_key) if certificate is None else certificate.key
    digest = content_digest(body.TYPE, attributes["pool"], body.to_json(), "")
    fields = [MESSAGE_TAG, digest, attributes["source"], attributes["id"], attributes["time_us"], attributes.get("subject", "")]
    return wrap(body, **attributes, keyid=key, sig=sign_fields(private_key, fields), certificate=_text(certificate))


def trust_of(state: PoolState) -> Trust:
    """Whose messages have an effect in this pool, as its log says."""
    return Trust((state.root_key,) if state.root_key else (), state.revoked_keys)


def check_sender(envelope: Envelope, trust: Trust, roles: Collection[Role], at: int) -> Certificate | None:
    """The certificate of who signed this message; None if the pool has no root key.

    at: the time of the check, µs UTC. Raises `InvalidMessage`: not signed, or not by a certified key of one of these roles.
    """
    if not trust.root_keys:
        return None
    if not envelope.sig or not envelope.certificate:
        raise envelope.refused("not-signed", f"a message of {' or '.join(sorted(roles))} needs a signature and a certificate")
    certificate = _certificate(envelope.certificate)
    if certificate is None or certificate.key != envelope.keyid:
        raise envelope.refused("bad-certificate", "certificate: not valid, or not that of keyid")
    try:
        check_certificate(certificate, root_keys=trust.root_keys, pool=envelope.pool, roles=roles, at=at, revoked=trust.revoked)
    except InvalidCertificate as error:
        raise envelope.refused("bad-certificate", str(error)) from None
    check_signature(envelope)
    return certificate


def check_node(envelope: Envelope, state: PoolState, node: str) -> None:
    """Raises `InvalidMessage` unless the key with which this node is enrolled signed it, or the pool has no root key."""
    if not state.root_key:
        return
    known = state.enrolled.get(node)
    if known is None or known.key != envelope.keyid:
        raise envelope.refused("not-signed", f"a message of {node} needs the signature of this node's key")
    check_signature(envelope)


def check_signature(envelope: Envelope) -> None:
    """Raises `InvalidMessage` unless the key named in `keyid` signed this message."""
    fields = [MESSAGE_TAG, envelope.digest, envelope.source, envelope.id, envelope.time, envelope.subject]
    if not is_signed(envelope.keyid, envelope.sig, fields):
        raise envelope.refused("bad-signature", "sig: does not fit the message and its key")


@lru_cache(maxsize=64)
def _text(certificate: Certificate | None) -> str:
    return "" if certificate is None else certificate.to_json().decode()


@lru_cache(maxsize=4096)  # every message of a participant carries the same
def _certificate(text: str) -> Certificate | None:
    try:
        return Certificate.model_validate_json(text)
    except ValidationError:
        return None
