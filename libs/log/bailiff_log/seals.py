"""Seals: an Ed25519 signature over the root of a Merkle tree, whose leaves are the hashes of a log's records in order.

Signed are the bytes of canonical JSON: `["bailiff-seal-1", pool, identity, size, root, hash, sealed_at]` by the sealing
key; `["bailiff-seal-key-1", pool, identity, key]` by the key before it, when a new one takes over; and
`["bailiff-seals-invalidated-1", pool, identity, size, lost, invalidated_root, from_seq, reason, invalidated_at]` by the
sealing key, when sealed records were lost and an operator accepted that. A proof is one JSON document that holds a record's
bytes, its path to the root of a seal, and that seal, with the keys before the one that made it: it needs nothing else.
"""

import base64
import binascii
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import ValidationError

from bailiff_bus.envelope import InvalidMessage, unwrap
from bailiff_bus.messages import LogSealed, SealingKey, SealsInvalidated
from bailiff_bus.port import Headers, Message
from bailiff_core.canonical import canonical_json
from bailiff_core.humanize import count_text
from bailiff_core.records import Wire, record_hash
from bailiff_core.records.merkle import Frontier, Subtree, consistency_path, consistent, included, inclusion_path, leaf_hash

from .signatures import key_id, new_private_key

SEAL_TAG, KEY_TAG, INVALIDATION_TAG = "bailiff-seal-1", "bailiff-seal-key-1", "bailiff-seals-invalidated-1"
SealBody = LogSealed | SealingKey | SealsInvalidated
"""Message types on `bailiff.seals`."""
PROOF_FORMAT = 1
KEY_BYTES = 32


class KeyFileError(Exception):
    """A file that should hold a private key does not, or others may read it. The text says which and what to do."""


class VerificationFailed(Exception):
    """Something does not hold. The text says what, and where."""


# --- keys


def read_private_key(path: Path) -> bytes:
    """The 32 bytes of the key in this file, which only its owner may read. Raises `KeyFileError`."""
    try:
        mode, text = path.stat().st_mode, path.read_bytes().strip()
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise KeyFileError(f"{path}: others than its owner may read or change it; chmod 600 {path}")
    try:
        raw = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raw = b""
    if len(raw) != KEY_BYTES:
        raise KeyFileError(f"{path}: expected an Ed25519 private key, {KEY_BYTES} bytes as base64url; bailiff key new makes one")
    return raw


def make_private_key(path: Path) -> bytes:
    """A new key in a new file of mode 0600; or the key that somebody else put there first. Raises `KeyFileError`."""
    private = new_private_key()
    text = base64.urlsafe_b64encode(private).rstrip(b"=") + b"\n"
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            return read_private_key(path)
        finally:
            draft.unlink()
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be written: {error.strerror}") from None
    return private


# --- making


def make_seal(
    private: bytes, pool: str, identity: str, tree: Frontier, head_hash: str, sealed_at: int,
    before: int = 0, subtree: Subtree | None = None,
) -> LogSealed:  # fmt: skip
    """A seal over the whole tree. before, subtree: size of the previous seal, and the consistency proof."""
    path = consistency_path(before, tree.size, subtree) if before and subtree is not None else []
    root = tree.root().hex()
    signature = _sign(private, [SEAL_TAG, pool, identity, tree.size, root, head_hash, sealed_at])
    return LogSealed(
        identity=identity, size=tree.size, root=root, hash=head_hash, sealed_at=sealed_at, previous_size=before,
        consistency=tuple(each.hex() for each in path), key=key_id(private), signature=signature,
    )  # fmt: skip


def make_key(private: bytes, pool: str, identity: str, before: bytes | None = None) -> SealingKey:
    """What publishes a key. before: the private key until now."""
    key = key_id(private)
    if before is None:
        return SealingKey(identity=identity, key=key)
    return SealingKey(
        identity=identity, key=key, previous_key=key_id(before), signature=_sign(before, [KEY_TAG, pool, identity, key])
    )


def make_invalidation(
    private: bytes, pool: str, identity: str, stands: LogSealed | None, lost: LogSealed, from_seq: int, reason: str, at: int
) -> SealsInvalidated:
    """What says that the seals up to `lost` count no more, but for those up to `stands`."""
    size = stands.size if stands is not None else 0
    signed_fields = [INVALIDATION_TAG, pool, identity, size, lost.size, lost.root, from_seq, reason, at]
    return SealsInvalidated(
        identity=identity, size=size, invalidated_size=lost.size, invalidated_root=lost.root, from_seq=from_seq, reason=reason,
        invalidated_at=at,
        key=key_id(private), signature=_sign(private, signed_fields),
    )  # fmt: skip


# --- checking


def check_seal(seal: LogSealed, pool: str) -> None:
    """Whether its key signed it. Raises `VerificationFailed`."""
    signed = [SEAL_TAG, pool, seal.identity, seal.size, seal.root, seal.hash, seal.sealed_at]
    if not _signed(seal.key, seal.signature, signed):
        raise VerificationFailed(f"{_what(seal)}: its signature does not fit key {seal.key}")


@dataclass
class SealChain:
    """The seals of one log, judged one after the other: keys that vouch for each other, trees that continue each other.

    trusted: public keys that somebody got by another way; then the first key must be among them. handovers: what made each of
    `keys` the log's. aside: accepted losses, whose seals are not among `seals` any more.
    """

    pool: str
    trusted: frozenset[str] = frozenset()
    identity: str = ""
    keys: list[str] = field(default_factory=list)
    handovers: list[SealingKey] = field(default_factory=list)
    seals: list[LogSealed] = field(default_factory=list)
    aside: list[SealsInvalidated] = field(default_factory=list)

    @property
    def last(self) -> LogSealed | None:
        """The newest seal."""
        return self.seals[-1] if self.seals else None

    def take(self, body: SealBody) -> None:
        """One more. Raises `VerificationFailed`, and then stays as it was."""
        if self.identity and body.identity != self.identity:
            raise VerificationFailed(f"{_what(body)} is of another log: {body.identity[:16]}…, not {self.identity[:16]}…")
        if isinstance(body, SealingKey):
            self._take_key(body)
        elif isinstance(body, SealsInvalidated):
            self._take_aside(body)
        else:
            self._take_seal(body)
        self.identity = body.identity

    def _take_key(self, body: SealingKey) -> None:
        if body.key in self.keys[-1:]:
            return
        if not self.keys:
            if self.trusted and body.key not in self.trusted:
                raise VerificationFailed(f"the log is sealed with key {body.key}, which is none of those to trust")
        elif (
            body.previous_key != self.keys[-1]
            or body.signature is None
            or not _signed(body.previous_key, body.signature, [KEY_TAG, self.pool, body.identity, body.key])
        ):
            raise VerificationFailed(f"key {body.key} took over, but key {self.keys[-1]} before it did not sign that")
        self.keys.append(body.key)
        self.handovers.append(body)

    def _take_aside(self, body: SealsInvalidated) -> None:
        signed_fields = [
            INVALIDATION_TAG, self.pool, body.identity, body.size, body.invalidated_size, body.invalidated_root, body.from_seq,
            body.reason,
            body.invalidated_at,
        ]  # fmt: skip
        if body.key not in self.keys[-1:] or not _signed(body.key, body.signature, signed_fields):
            raise VerificationFailed(f"{_what(body)} were invalidated, but not with a signature of the log's key")
        left = [seal for seal in self.seals if seal.size <= body.size]
        last = self.last
        stands = left[-1].size if left else 0
        if last is None or (last.size, last.root) != (body.invalidated_size, body.invalidated_root) or stands != body.size:
            raise VerificationFailed(f"{_what(body)} were invalidated, which are not the newest ones")
        self.seals = left
        self.aside.append(body)

    def _take_seal(self, seal: LogSealed) -> None:
        if seal.key not in self.keys[-1:]:
            raise VerificationFailed(f"{_what(seal)} was made with key {seal.key}, which was not the log's key then")
        check_seal(seal, self.pool)
        known = next((each for each in reversed(self.seals) if each.size == seal.size), None)
        if known is not None:
            if (known.root, known.hash) != (seal.root, seal.hash):
                raise VerificationFailed(f"two seals over {count_text(seal.size, 'record')} name different roots")
            return
        last = self.last
        if last is not None:
            path = [bytes.fromhex(each) for each in seal.consistency]
            roots = bytes.fromhex(last.root), bytes.fromhex(seal.root)
            if seal.previous_size != last.size or not consistent(last.size, seal.size, path, *roots):
                raise VerificationFailed(
                    f"{_what(seal)} does not continue the one over {last.size}: the log was changed or cut between"
                )
        elif seal.previous_size:
            raise VerificationFailed(f"{_what(seal)} continues one over {seal.previous_size}, which is missing")
        self.seals.append(seal)


def _what(body: SealBody) -> str:
    if isinstance(body, SealsInvalidated):
        return f"the seals over more than {body.size} and up to {body.invalidated_size} records"
    return f"the seal over {count_text(body.size, 'record')}" if isinstance(body, LogSealed) else f"key {body.key}"


def valid_seals(seals: Iterable[SealBody]) -> list[LogSealed | SealingKey]:
    """Returns the seals without the invalidated ones and their invalidations: a chain of its own."""
    found: list[LogSealed | SealingKey] = []
    for body in seals:
        if isinstance(body, SealsInvalidated):
            found = [each for each in found if isinstance(each, SealingKey) or each.size <= body.size]
        else:
            found.append(body)
    return found


def parse_seal(message: Message, pool: str) -> SealBody | None:
    """What a message of `bailiff.seals` says about this pool; nothing where it says nothing that can be read."""
    try:
        found = unwrap(message, accept=(LogSealed, SealingKey, SealsInvalidated))
    except InvalidMessage:
        return None
    body = found.body
    return body if found.pool == pool and isinstance(body, LogSealed | SealingKey | SealsInvalidated) else None


@dataclass(frozen=True, slots=True)
class ConsistencyProof:
    """Shows that a tree of so many records is the beginning of the first seal's above it: a consistency path of RFC 6962."""

    size: int
    path: tuple[bytes, ...]


@dataclass
class SealVerifier:
    """Holds records against seals while a log is walked: `add` each record's hash in turn, then `finish`.

    problem: the first seal that the log does not fit, in words; sound: so many records fit. tree: of what is before the
    records that are walked. closing: of records that were kept without those up to the next seal. to_its_end: where there are
    seals, the last record must be under one, too.
    """

    chain: SealChain
    tree: Frontier = field(default_factory=Frontier)
    closing: ConsistencyProof | None = None
    to_its_end: bool = False
    problem: str = ""
    sound: int = 0
    _next: int = 0

    def __post_init__(self) -> None:
        self.sound = self.tree.size
        self._next = sum(seal.size <= self.tree.size for seal in self.chain.seals)
        before = self.chain.seals[self._next - 1] if self._next else None
        if before is not None and before.size == self.tree.size and before.root != self.tree.root().hex():
            self.problem = f"the records before {before.size} are not those that were sealed"

    def add(self, record_hash_hex: str) -> None:
        """The next record that continues the chain."""
        self.tree.append(leaf_hash(bytes.fromhex(record_hash_hex)))
        seals = self.chain.seals
        while not self.problem and self._next < len(seals) and seals[self._next].size == self.tree.size:
            seal = seals[self._next]
            self._next += 1
            if self.tree.root().hex() == seal.root:
                self.sound = seal.size
            else:
                self.problem = (
                    f"records {self.sound} to {seal.size - 1} are not those that were sealed: "
                    "one of them was changed, inserted or put elsewhere"
                )

    def finish(self) -> str:
        """The problem, or what is missing at the end of the log."""
        seals = self.chain.seals
        if not self.problem and self.chain.trusted and not seals:
            self.problem = "there is no seal by a key that is to be trusted"
        if not self.problem and self._next < len(seals) and self._is_closed_by(seals[self._next]):
            self.sound, self._next = self.tree.size, len(seals)
        if not self.problem and self._next < len(seals):
            self.problem = (
                f"{seals[-1].size} records were sealed, the log goes to record {self.tree.size - 1} only: "
                f"it was cut short or replaced from record {self.tree.size} at the latest"
            )
        if not self.problem and self.to_its_end and seals and self.sound < self.tree.size:
            self.problem = f"records {self.sound} to {self.tree.size - 1} are under none of the seals"
        return self.problem

    def _is_closed_by(self, seal: LogSealed) -> bool:
        tree, closing = self.tree, self.closing
        if closing is None or closing.size != tree.size or self._next != len(self.chain.seals) - 1:
            return False
        if not consistent(tree.size, seal.size, closing.path, tree.root(), bytes.fromhex(seal.root)):
            self.problem = f"records {self.sound} to {tree.size - 1} are not those under {_what(seal)}"
        return not self.problem


# --- proofs


def make_proof(
    pool: str, seq: int, headers: Headers, value: bytes, seal: LogSealed, subtree: Subtree, keys: Sequence[SealingKey] = ()
) -> dict[str, Any]:
    """The document that shows that this record is in the log under this seal.

    keys: those of the log up to the seal's, so that whoever knows the first one only can check it.
    """
    return {
        "bailiff_proof": PROOF_FORMAT,
        "pool": pool,
        "seq": seq,
        "headers": [[name, _b64(content)] for name, content in headers if name.startswith("ce_")],
        "value": _b64(value),
        "path": [each.hex() for each in inclusion_path(seq, seal.size, subtree)],
        "seal": seal.to_data(),
        **({"keys": [key.to_data() for key in keys]} if len(keys) > 1 else {}),
    }


@dataclass(frozen=True, slots=True)
class VerifiedProof:
    """What a proof shows: this record stands at `seq` of the log under the seal of the last of these keys.

    keys: the first is the one to know; each of them signed that the next one takes over.
    """

    pool: str
    seq: int
    wire: Wire
    seal: LogSealed
    keys: list[str]


def check_proof(text: str, trusted: Sequence[str] = ()) -> VerifiedProof:
    """What the document shows. Raises `VerificationFailed`.

    trusted: public keys, of which one sealed it, or handed over to the key that did; none: any.
    """
    try:
        document = json.loads(text)
        if document["bailiff_proof"] != PROOF_FORMAT:
            raise VerificationFailed(f"this is a proof of format {document['bailiff_proof']}, which this release does not know")
        pool, seq = str(document["pool"]), int(document["seq"])
        place = pool.encode(), b"%d" % seq
        headers = tuple((str(name), _unb64(content)) for name, content in document["headers"])
        wire = Wire(headers, _unb64(document["value"]))
        path = [bytes.fromhex(each) for each in document["path"]]
        seal = LogSealed.model_validate_json(json.dumps(document["seal"]))
        keys = [SealingKey.model_validate_json(json.dumps(each)) for each in document.get("keys", [])]
        leaf = leaf_hash(bytes.fromhex(record_hash(wire)))
    except (KeyError, TypeError, ValueError, ValidationError, RecursionError, OverflowError) as error:
        raise VerificationFailed(f"this is no proof, or a part of it is missing: {type(error).__name__}") from None
    values = dict(headers)
    if (values.get("ce_pool"), values.get("ce_seq")) != place:
        raise VerificationFailed(f"the record itself does not say that it is {pool}#{seq}")
    check_seal(seal, pool)
    vouched = _verified_keys(seal, pool, keys, trusted)
    if not included(leaf, seq, seal.size, path, bytes.fromhex(seal.root)):
        raise VerificationFailed(f"{pool}#{seq} with these bytes is not under {_what(seal)}")
    return VerifiedProof(pool, seq, wire, seal, vouched)


def _verified_keys(seal: LogSealed, pool: str, keys: Sequence[SealingKey], trusted: Sequence[str]) -> list[str]:
    """The keys from one that is trusted, or else the first, to the seal's. Raises `VerificationFailed`."""
    if seal.key in trusted or not (keys or trusted):
        return [seal.key]
    if not keys:
        raise VerificationFailed(f"the seal was made with key {seal.key}, which is none of those to trust")
    begin = next((at for at, body in enumerate(keys) if body.key in trusted), 0)
    chain = SealChain(pool, frozenset(trusted), seal.identity)
    for body in keys[begin:]:
        chain.take(body)
    if chain.keys[-1] != seal.key:
        raise VerificationFailed(f"the seal was made with key {seal.key}, and the last one that took over is {chain.keys[-1]}")
    return chain.keys


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _unb64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError("not text")
    return base64.b64decode(text, validate=True)


def _sign(private: bytes, signed_fields: Sequence[object]) -> str:
    signature = Ed25519PrivateKey.from_private_bytes(private).sign(canonical_json(list(signed_fields)))
    return base64.urlsafe_b64encode(signature).decode().rstrip("=")


def _signed(key: str, signature: str, signed_fields: Sequence[object]) -> bool:
    public, proof = (base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) for text in (key, signature))
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(proof, canonical_json(list(signed_fields)))
    except (ValueError, InvalidSignature):
        return False
    return True
