"""Authenticates requests by Ed25519 signatures (log protocol §9).

A consumer cannot see which principal wrote a Kafka record, so a request may be signed: `keyid` is the public key (32 bytes,
base64url without padding), `sig` the signature in the same encoding, over the bytes

    canonical JSON of ["bailiff-request-1", digest, source, id, time]

`digest` is the hex digest of the envelope: SHA-256 of type, pool, actor and public data, in which a job's spec is represented by
its salted digest. So the record of the request (`signed_requests`) shows who asked, without the spec. `time` is the request's
own, µs UTC; it prevents a replay of an old request under a new time. The policy lists the accepted keys and their actors
(`identity.keys`: key id → actor). A key's holder may also act as names below its own: the key of `console` signs for
`console/alice`.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from bailiff_bus.envelope import Envelope, content_digest
from bailiff_core.canonical import canonical_json
from bailiff_core.humanize import value_text
from bailiff_core.model.identity import Auth
from bailiff_core.model.message import MessageBody
from bailiff_core.records.job_requests import SubmitJob

from .keys import is_signed, key_id, sign_fields
from .signed_requests import SIGNED_TAG, kept_request

SALT_TAG = "bailiff-salt-1"


@dataclass(frozen=True, slots=True)
class Identity:
    """The requester, and how it was authenticated: `none`, `acl` (the topic's access list) or `signed`.

    request: what the requester signed, as records keep it.
    """

    actor: str
    auth: Auth
    request: str = ""


def sign(
    private_key: bytes,
    body: MessageBody,
    *,
    source: str,
    id: str,  # noqa: A002 - named by CloudEvents
    pool: str,
    time_us: int,
    actor: str = "",
) -> tuple[str, str]:
    """`keyid` and `sig` for `envelope.wrap` with the same arguments."""
    digest = content_digest(body.TYPE, pool, body.public_data(body.to_json()), actor)
    return key_id(private_key), sign_fields(private_key, [SIGNED_TAG, digest, source, id, time_us])


def salted(private_key: bytes, body: MessageBody, *, source: str, id: str) -> MessageBody:  # noqa: A002 - named by CloudEvents
    """The request as it is signed: a submission gets a salt. A repeat under the same id gets the same one.

    Without the private key the salt cannot be guessed.
    """
    if not isinstance(body, SubmitJob) or body.salt is not None:
        return body
    salt = hmac.digest(private_key, canonical_json([SALT_TAG, source, id]), "sha256")
    return body.model_copy(update={"salt": salt.hex()})


def verify(envelope: Envelope, keys: Mapping[str, str], *, unsigned: Auth = "none") -> Identity:
    """The requester of this message. Raises `InvalidMessage` for an invalid signature.

    keys: the policy's key ids and their holders. unsigned: the authentication of unsigned requests on this topic.
    """
    if not envelope.sig:
        return Identity(envelope.actor, unsigned)
    holder = keys.get(envelope.keyid)
    if holder is None:
        raise envelope.refused("unknown-key", f"keyid: the policy names no key {value_text(envelope.keyid)}")
    if not is_signed(envelope.keyid, envelope.sig, [SIGNED_TAG, envelope.digest, envelope.source, envelope.id, envelope.time]):
        raise envelope.refused("bad-signature", "sig: does not fit the request and its key")
    actor = envelope.actor or holder
    if actor != holder and not actor.startswith(f"{holder}/"):
        reason = f"actor: the key is that of {value_text(holder)}, which may not speak for {value_text(actor)}"
        raise envelope.refused("wrong-actor", reason)
    if isinstance(envelope.body, SubmitJob) and envelope.body.salt is None:
        raise envelope.refused("no-salt", "salt: a signed submission needs one, random bytes in hex")
    return Identity(actor, "signed", kept_request(envelope))
