"""Certificates of the participants of a pool: which public key may do what, signed with the pool's root key.

Only the shape: signatures are made and checked by `bailiff_log.certificates`.
"""

from typing import Annotated, Literal

from pydantic import Field

from .document import Document, Hash, Name, Time
from .privacy import PRIVATE

Key = Annotated[str, Field(min_length=43, max_length=43, pattern=r"^[A-Za-z0-9_-]+$")]
"""A public key of 32 bytes, base64url without padding."""
Signature = Annotated[str, Field(min_length=86, max_length=86, pattern=r"^[A-Za-z0-9_-]+$")]
"""An Ed25519 signature, base64url without padding."""
Role = Literal[
    "admission", "victim-selection", "eviction-executor", "auditor", "rollup", "console", "api", "notifier", "witness", "node"
]
ALL_POOLS = "*"


class Certificate(Document):
    """One participant's public keys, role and name, signed with the pool's root key.

    Attributes:
        key: Ed25519 key, for the participant's signatures.
        encryption_key: X25519 key, for data that only the participant may read.
        pool: A pool's name, or `*` for every pool of this root key.
        name: For the role `node`, the node's name.
        not_before: µs UTC.
        expires: µs UTC.
    """

    TREATMENT = PRIVATE
    key: Key
    role: Role
    name: Name
    pool: Annotated[str, Field(min_length=1, max_length=63)] = ALL_POOLS
    not_before: Time
    expires: Time
    encryption_key: Key | None = None
    signature: Signature


class RootKeyChange(Document):
    """A pool's new root key, signed with the one before it.

    Attributes:
        identity: Hash of the log's first record.
    """

    identity: Hash
    key: Key
    signature: Signature
