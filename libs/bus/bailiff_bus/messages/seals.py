"""`bailiff.seals`: signed seals of the log."""

from typing import Annotated, ClassVar

from pydantic import Field

from bailiff_core.model.document import Count, Hash, Integer, Time

from .base import MessageBody

KeyText = Annotated[str, Field(min_length=43, max_length=43, pattern=r"^[A-Za-z0-9_-]+$")]
SignatureText = Annotated[str, Field(min_length=86, max_length=86, pattern=r"^[A-Za-z0-9_-]+$")]


class SealingKey(MessageBody):
    """From here on this key seals the log. The one before it has signed it; the first one stands by itself.

    key, previous_key: Ed25519 public keys, base64url. identity: the log's, which is the hash of its first record.
    """

    TYPE: ClassVar[str] = "bailiff.SealingKey.v1"
    identity: Hash
    key: KeyText
    previous_key: KeyText | None = None
    signature: SignatureText | None = None


class SealsInvalidated(MessageBody):
    """Records that were sealed are lost, and an operator accepted that: seals over more than `size` records count no more.

    size: of the newest seal that stands, 0 for none; the next one continues it. invalidated_size, invalidated_root: of the
    newest seal that
    counts no more. from_seq: of the first lost record. invalidated_at: by the auditor's clock.
    """

    TYPE: ClassVar[str] = "bailiff.SealsInvalidated.v1"
    identity: Hash
    size: Count
    invalidated_size: Annotated[Integer, Field(ge=1)]
    invalidated_root: Hash
    from_seq: Count
    reason: Annotated[str, Field(max_length=1000)] = ""
    invalidated_at: Time
    key: KeyText
    signature: SignatureText


class LogSealed(MessageBody):
    """The log's first `size` records, vouched for: the root of their Merkle tree (RFC 6962), signed.

    hash: of record `size` - 1. previous_size: the size of the seal before this one, 0 for none; consistency: the proof that its
    tree is the beginning of this one. sealed_at: by the auditor's clock. key: the Ed25519 public key, base64url.
    """

    TYPE: ClassVar[str] = "bailiff.LogSealed.v1"
    identity: Hash
    size: Annotated[Integer, Field(ge=1)]
    root: Hash
    hash: Hash
    sealed_at: Time
    previous_size: Count = 0
    consistency: Annotated[tuple[Hash, ...], Field(max_length=128)] = ()
    key: KeyText
    signature: SignatureText
