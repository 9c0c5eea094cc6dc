"""`bailiff.seals`: signed seals of the log, the keys that sign them, and invalidations of seals over lost records.

`bailiff.cosignatures`: what witnesses say about the seals. Notes are texts in the format C2SP signed-note.
"""

from typing import Annotated

from pydantic import Field

from bailiff_core.model.certificate import Key, Signature
from bailiff_core.model.document import Count, Hash, Integer, Time
from bailiff_core.model.message import MessageBody

NoteText = Annotated[str, Field(max_length=16384)]
WitnessKey = Annotated[str, Field(min_length=1, max_length=512)]


class SealingKey(MessageBody):
    """Publishes the key that signs the following seals. Signed with the previous key; the first key has no signature.

    key, previous_key: Ed25519 public keys, base64url. identity: hash of the log's first record.
    """

    identity: Hash
    key: Key
    previous_key: Key | None = None
    signature: Signature | None = None


class SealsInvalidated(MessageBody):
    """Invalidates the seals over more than `size` records: an operator accepted the loss of sealed records.

    size: of the newest valid seal, 0 for none; the next seal continues it. invalidated_size, invalidated_root: of the newest
    invalidated seal. from_seq: of the first lost record. invalidated_at: by the auditor's clock.
    """

    identity: Hash
    size: Count
    invalidated_size: Annotated[Integer, Field(ge=1)]
    invalidated_root: Hash
    from_seq: Count
    reason: Annotated[str, Field(max_length=1000)] = ""
    invalidated_at: Time
    key: Key
    signature: Signature


class LogSealed(MessageBody):
    """A seal over the log's first `size` records: the signed root of their Merkle tree (RFC 6962).

    hash: of record `size` - 1. previous_size: size of the previous seal, 0 for none. consistency: consistency proof from that
    seal's tree to this one. sealed_at: by the auditor's clock. key: Ed25519 public key, base64url. checkpoint: size and root
    as a note, signed with the same key.
    """

    identity: Hash
    size: Annotated[Integer, Field(ge=1)]
    root: Hash
    hash: Hash
    sealed_at: Time
    previous_size: Count = 0
    consistency: Annotated[tuple[Hash, ...], Field(max_length=128)] = ()
    key: Key
    signature: Signature
    checkpoint: NoteText


class CheckpointCosigned(MessageBody):
    """A witness cosigned a checkpoint: it continues every one that this witness cosigned before.

    witness: name, key id and public key of the witness. checkpoint: the note with the log's signature and the cosignature.
    """

    witness: WitnessKey
    checkpoint: NoteText


class CheckpointRefused(MessageBody):
    """A witness did not cosign what it found on `bailiff.seals`, because it contradicts what it cosigned.

    cosigned: the newest checkpoint that this witness cosigned of the log. refused: the one that contradicts it, as published;
    empty if the seals end before it. refused_at: by the witness's clock. signature: with the witness's key.
    """

    witness: WitnessKey
    cosigned: NoteText
    refused: NoteText = ""
    reason: Annotated[str, Field(max_length=1000)]
    refused_at: Time
    signature: Signature | None = None
