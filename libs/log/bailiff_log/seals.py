"""Seals of the audit log: Ed25519 signatures over the root of a Merkle tree. Creates and verifies seals and inclusion proofs.

The leaves of the tree are the hashes of a log's records in order. A signature covers the bytes of canonical JSON:

* seal: `["bailiff-seal-1", pool, identity, size, root, hash, sealed_at]`, signed with the sealing key, and the same size and root
  as a checkpoint (`checkpoints`), for witnesses;
* key rotation: `["bailiff-seal-key-1", pool, identity, key]`, signed with the previous key;
* invalidation, after an operator accepted the loss of sealed records: `["bailiff-seals-invalidated-1", pool, identity, size,
  invalidated_size, invalidated_root, from_seq, reason, invalidated_at]`, signed with the sealing key.

An inclusion proof is one self-contained JSON document: a record's bytes, its Merkle path to the root of a seal, that seal, and
the sealing keys up to the one that signed it.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from bailiff_bus.envelope import InvalidMessage, unwrap
from bailiff_bus.messages.seals import LogSealed, SealingKey, SealsInvalidated
from bailiff_bus.port import Headers, Message
from bailiff_core.humanize import count_text
from bailiff_core.records import Wire, record_hash
from bailiff_core.records.merkle import Frontier, Subtree, consistency_path, consistent, included, inclusion_path, leaf_hash

from .checkpoints import Checkpoint, checkpoint_signed_by, log_key, origin_of, parse_origin, sign_checkpoint
from .keys import is_signed, key_id, sign_fields
from .signed_notes import NoteError, base64_text

SEAL_TAG, KEY_TAG, INVALIDATION_TAG = "bailiff-seal-1", "bailiff-seal-key-1", "bailiff-seals-invalidated-1"
SealBody = LogSealed | SealingKey | SealsInvalidated
"""Message types on `bailiff.seals`."""
PROOF_FORMAT = 1


class VerificationFailed(Exception):
    """A key, seal, invalidation or proof is invalid. The text says which, and why."""


# --- signing


def make_seal(
    private: bytes,
    pool: str,
    identity: str,
    tree: Frontier,
    head_hash: str,
    sealed_at: int,
    before: int = 0,
    subtree: Subtree | None = None,
    losses: int = 0,
) -> LogSealed:
    """A seal over the whole tree. before: size of the previous seal. subtree: subtree hashes, for the consistency proof.

    losses: number of accepted losses of sealed records before it.
    """
    path = consistency_path(before, tree.size, subtree) if before and subtree is not None else []
    root = tree.root().hex()
    signature = sign_fields(private, [SEAL_TAG, pool, identity, tree.size, root, head_hash, sealed_at])
    return LogSealed(
        identity=identity,
        size=tree.size,
        root=root,
        hash=head_hash,
        sealed_at=sealed_at,
        previous_size=before,
        consistency=tuple(each.hex() for each in path),
        key=key_id(private),
        signature=signature,
        checkpoint=sign_checkpoint(Checkpoint(origin_of(pool, identity, losses), tree.size, tree.root()), private),
    )


def make_key(private: bytes, pool: str, identity: str, before: bytes | None = None) -> SealingKey:
    """The message that publishes a key. before: the private key that it replaces; None for the first."""
    key = key_id(private)
    if before is None:
        return SealingKey(identity=identity, key=key)
    return SealingKey(
        identity=identity, key=key, previous_key=key_id(before), signature=sign_fields(before, [KEY_TAG, pool, identity, key])
    )


def make_invalidation(
    private: bytes, pool: str, identity: str, valid: LogSealed | None, lost: LogSealed, from_seq: int, reason: str, at: int
) -> SealsInvalidated:
    """The message that invalidates the seals after `valid` up to `lost`. valid: the newest seal that stays valid, if any."""
    size = valid.size if valid is not None else 0
    signed_fields = [INVALIDATION_TAG, pool, identity, size, lost.size, lost.root, from_seq, reason, at]
    return SealsInvalidated(
        identity=identity,
        size=size,
        invalidated_size=lost.size,
        invalidated_root=lost.root,
        from_seq=from_seq,
        reason=reason,
        invalidated_at=at,
        key=key_id(private),
        signature=sign_fields(private, signed_fields),
    )


# --- verification


def check_seal(seal: LogSealed, pool: str) -> None:
    """Verify the signature of the seal. Raises `VerificationFailed`."""
    signed = [SEAL_TAG, pool, seal.identity, seal.size, seal.root, seal.hash, seal.sealed_at]
    if not is_signed(seal.key, seal.signature, signed):
        raise VerificationFailed(f"{_what(seal)}: its signature is not valid for key {seal.key}")


@dataclass
class SealChain:
    """Verifies the seals of one log in order: each key is signed by the previous one, each tree continues the previous one.

    trusted: public keys obtained out of band; if any are given, the first key must be among them. key_messages: the message that
    published each of `keys`. seals: the valid ones. invalidations: accepted losses; their seals are removed from `seals`.
    ignored: messages that the caller left out, because no key of this log made them.
    """

    pool: str
    trusted: frozenset[str] = frozenset()
    identity: str = ""
    keys: list[str] = field(default_factory=list)
    key_messages: list[SealingKey] = field(default_factory=list)
    seals: list[LogSealed] = field(default_factory=list)
    invalidations: list[SealsInvalidated] = field(default_factory=list)
    ignored: int = 0

    @property
    def origin(self) -> str:
        """The origin in the checkpoints of the next seals."""
        return origin_of(self.pool, self.identity, len(self.invalidations))

    @property
    def last(self) -> LogSealed | None:
        """The newest valid seal."""
        return self.seals[-1] if self.seals else None

    def take(self, body: SealBody) -> None:
        """Verify and add the next message. Raises `VerificationFailed` and leaves the chain unchanged."""
        if self.identity and body.identity != self.identity:
            raise VerificationFailed(f"{_what(body)} belongs to another log: {body.identity[:16]}…, not {self.identity[:16]}…")
        if isinstance(body, SealingKey):
            self._take_key(body)
        elif isinstance(body, SealsInvalidated):
            self._take_invalidation(body)
        else:
            self._take_seal(body)
        self.identity = body.identity

    def vouches_for(self, body: SealBody) -> bool:
        """Whether one of the log's keys made this message. Before the first key only those that are trusted count."""
        if isinstance(body, SealingKey):
            handover = [KEY_TAG, self.pool, body.identity, body.key]
            signed = body.previous_key in self.keys and is_signed(body.previous_key or "", body.signature or "", handover)
            return body.key in (self.keys or self.trusted) or signed
        if body.key not in self.keys:
            return False
        if isinstance(body, SealsInvalidated):
            return is_signed(body.key, body.signature, _invalidation_fields(body, self.pool))
        try:
            check_seal(body, self.pool)
            checkpoint_signed_by(body.checkpoint, [log_key(body.checkpoint.partition("\n")[0], body.key)])
        except (VerificationFailed, NoteError):
            return False
        return True

    def _take_key(self, body: SealingKey) -> None:
        if body.key in self.keys[-1:]:
            return
        if not self.keys:
            if self.trusted and body.key not in self.trusted:
                raise VerificationFailed(f"the log is sealed with key {body.key}, which is not a trusted key")
        elif (
            body.previous_key != self.keys[-1]
            or body.signature is None
            or not is_signed(body.previous_key, body.signature, [KEY_TAG, self.pool, body.identity, body.key])
        ):
            raise VerificationFailed(f"key {body.key} replaced key {self.keys[-1]}, but is not signed by it")
        self.keys.append(body.key)
        self.key_messages.append(body)

    def _take_invalidation(self, body: SealsInvalidated) -> None:
        if body.key not in self.keys[-1:] or not is_signed(body.key, body.signature, _invalidation_fields(body, self.pool)):
            raise VerificationFailed(f"the invalidation of {_what(body)} is not signed by the log's key")
        valid = [seal for seal in self.seals if seal.size <= body.size]
        last = self.last
        valid_size = valid[-1].size if valid else 0
        if last is None or (last.size, last.root) != (body.invalidated_size, body.invalidated_root) or valid_size != body.size:
            raise VerificationFailed(f"the invalidation of {_what(body)} does not name the newest seals")
        self.seals = valid
        self.invalidations.append(body)

    def _take_seal(self, seal: LogSealed) -> None:
        if seal.key not in self.keys[-1:]:
            raise VerificationFailed(f"{_what(seal)} was signed with key {seal.key}, which was not the log's key")
        check_seal(seal, self.pool)
        self._check_checkpoint(seal)
        known = next((each for each in reversed(self.seals) if each.size == seal.size), None)
        if known is not None:
            if (known.root, known.hash) != (seal.root, seal.hash):
                raise VerificationFailed(f"two seals over {count_text(seal.size, 'record')} have different roots")
            return
        last = self.last
        if last is not None:
            path = [bytes.fromhex(each) for each in seal.consistency]
            roots = bytes.fromhex(last.root), bytes.fromhex(seal.root)
            if seal.previous_size != last.size or not consistent(last.size, seal.size, path, *roots):
                raise VerificationFailed(
                    f"{_what(seal)} does not continue the seal over {last.size}: the log was modified or truncated in between"
                )
        elif seal.previous_size:
            raise VerificationFailed(f"{_what(seal)} continues a seal over {seal.previous_size}, which is missing")
        self.seals.append(seal)

    def _check_checkpoint(self, seal: LogSealed) -> None:
        origin = seal.checkpoint.partition("\n")[0]
        try:
            _, checkpoint = checkpoint_signed_by(seal.checkpoint, [log_key(origin, seal.key)])
        except NoteError as error:
            raise VerificationFailed(f"{_what(seal)}: {error}") from None
        if checkpoint != Checkpoint(origin, seal.size, bytes.fromhex(seal.root)):
            raise VerificationFailed(f"{_what(seal)}: its checkpoint has another size or root")
        found = parse_origin(origin)  # a folder of segments has no invalidations
        if found is None or found[:2] != (self.pool, seal.identity) or found[2] < len(self.invalidations):
            raise VerificationFailed(f"{_what(seal)}: its checkpoint is of another log")


def _invalidation_fields(body: SealsInvalidated, pool: str) -> list[object]:
    return [
        INVALIDATION_TAG,
        pool,
        body.identity,
        body.size,
        body.invalidated_size,
        body.invalidated_root,
        body.from_seq,
        body.reason,
        body.invalidated_at,
    ]


def _what(body: SealBody) -> str:
    if isinstance(body, SealsInvalidated):
        return f"the seals over more than {body.size} and up to {body.invalidated_size} records"
    return f"the seal over {count_text(body.size, 'record')}" if isinstance(body, LogSealed) else f"key {body.key}"


def valid_seals(seals: Iterable[SealBody]) -> list[LogSealed | SealingKey]:
    """Returns keys and seals without invalidated seals and their invalidations."""
    found: list[LogSealed | SealingKey] = []
    for body in seals:
        if isinstance(body, SealsInvalidated):
            found = [each for each in found if isinstance(each, SealingKey) or each.size <= body.size]
        else:
            found.append(body)
    return found


def chain_of_bodies(pool: str, bodies: Sequence[SealBody], trust: Sequence[str] = ()) -> tuple[SealChain, str]:
    """The valid seals among these messages, and the problem of the first invalid one. trust: the log's first key, if known."""
    if trust:
        return _chain_from(pool, bodies, trust)
    first_keys = [body.key for body in bodies if isinstance(body, SealingKey) and body.previous_key is None]
    used = {body.previous_key if isinstance(body, SealingKey) else body.key for body in bodies}
    chains = (_chain_from(pool, bodies, [key]) for key in dict.fromkeys(first_keys) if key in used)
    chain, problem = next((each for each in chains if each[0].seals), None) or _chain_from(pool, bodies, first_keys[:1])
    chain.trusted = frozenset()
    return chain, problem


def _chain_from(pool: str, bodies: Sequence[SealBody], trust: Sequence[str]) -> tuple[SealChain, str]:
    chain, problem = SealChain(pool, frozenset(trust)), ""
    for body in bodies:
        if not chain.vouches_for(body):
            chain.ignored += 1
            continue
        try:
            chain.take(body)
        except VerificationFailed as no:
            problem = problem or str(no)
    return chain, problem


def parse_seal(message: Message, pool: str) -> SealBody | None:
    """The body of a message of `bailiff.seals`; None if it is unreadable or of another pool."""
    try:
        found = unwrap(message, accept=(LogSealed, SealingKey, SealsInvalidated))
    except InvalidMessage:
        return None
    body = found.body
    return body if found.pool == pool and isinstance(body, LogSealed | SealingKey | SealsInvalidated) else None


@dataclass(frozen=True, slots=True)
class ConsistencyProof:
    """Consistency proof (RFC 6962) that a tree of `size` records is a prefix of the tree of the next seal."""

    size: int
    path: tuple[bytes, ...]


@dataclass
class SealVerifier:
    """Verifies the records of a log against its seals: `add` each record's hash in order, then `finish`.

    problem: describes the first mismatch. verified: number of records from the start of the log that match a seal. tree: Merkle
    tree of the records before the first one added. closing: proof from the last record to the next seal, for an export that ends
    before that seal. require_sealed_end: report records after the last seal as a problem. continues: more records follow the
    added ones, and somebody else verifies the log's end.
    """

    chain: SealChain
    tree: Frontier = field(default_factory=Frontier)
    closing: ConsistencyProof | None = None
    require_sealed_end: bool = False
    continues: bool = False
    problem: str = ""
    verified: int = 0
    _next: int = 0

    def __post_init__(self) -> None:
        self.verified = self.tree.size
        self._next = sum(seal.size <= self.tree.size for seal in self.chain.seals)
        before = self.chain.seals[self._next - 1] if self._next else None
        if before is not None and before.size == self.tree.size and before.root != self.tree.root().hex():
            self.problem = f"the records before {before.size} are not the sealed ones"

    def add(self, record_hash_hex: str) -> None:
        """Add the hash of the next record of the chain."""
        self.tree.append(leaf_hash(bytes.fromhex(record_hash_hex)))
        seals = self.chain.seals
        while not self.problem and self._next < len(seals) and seals[self._next].size == self.tree.size:
            seal = seals[self._next]
            self._next += 1
            if self.tree.root().hex() == seal.root and record_hash_hex == seal.hash:
                self.verified = seal.size
            elif self.tree.root().hex() == seal.root:
                self.problem = f"the seal over {seal.size} records names another last record than the log has"
            else:
                self.problem = (
                    f"records {self.verified} to {seal.size - 1} are not the sealed ones: "
                    "at least one was modified, inserted or moved"
                )

    def finish(self) -> str:
        """Check the end of the log. Returns the problem; empty if there is none."""
        seals = self.chain.seals
        if not self.problem and self.chain.trusted and not seals:
            self.problem = "no seal is signed by a trusted key"
        if self.continues:
            return self.problem
        if not self.problem and self._next < len(seals) and self._is_closed_by(seals[self._next]):
            self.verified, self._next = self.tree.size, len(seals)
        if not self.problem and self._next < len(seals):
            self.problem = (
                f"{seals[-1].size} records were sealed, but the log ends at record {self.tree.size - 1}: "
                f"it was truncated or replaced from record {self.tree.size} at the latest"
            )
        if not self.problem and self.require_sealed_end and seals and self.verified < self.tree.size:
            self.problem = f"records {self.verified} to {self.tree.size - 1} are not sealed"
        return self.problem

    def _is_closed_by(self, seal: LogSealed) -> bool:
        tree, closing = self.tree, self.closing
        if closing is None or closing.size != tree.size or self._next != len(self.chain.seals) - 1:
            return False
        if not consistent(tree.size, seal.size, closing.path, tree.root(), bytes.fromhex(seal.root)):
            self.problem = f"records {self.verified} to {tree.size - 1} are not the ones covered by {_what(seal)}"
        return not self.problem


# --- proofs


def make_proof(
    pool: str, seq: int, headers: Headers, value: bytes, seal: LogSealed, subtree: Subtree, keys: Sequence[SealingKey] = ()
) -> dict[str, Any]:
    """An inclusion proof of this record under this seal, as a JSON document.

    keys: the log's keys up to the seal's, so that a verifier needs to trust the first one only.
    """
    return {
        "bailiff_proof": PROOF_FORMAT,
        "pool": pool,
        "seq": seq,
        "headers": [[name, base64_text(content)] for name, content in headers if name.startswith("ce_")],
        "value": base64_text(value),
        "path": [each.hex() for each in inclusion_path(seq, seal.size, subtree)],
        "seal": seal.to_data(),
        **({"keys": [key.to_data() for key in keys]} if len(keys) > 1 else {}),
    }


@dataclass(frozen=True, slots=True)
class VerifiedProof:
    """A verified inclusion proof: the record is at `seq` of the log, covered by the seal.

    keys: from the key that must be trusted to the seal's; each one signed the next.
    """

    pool: str
    seq: int
    wire: Wire
    seal: LogSealed
    keys: list[str]


def check_proof(text: str, trusted: Sequence[str] = ()) -> VerifiedProof:
    """Verify an inclusion proof. Raises `VerificationFailed`.

    trusted: public keys, one of which must be the seal's or an earlier key of its chain; empty: any key is accepted.
    """
    try:
        document = json.loads(text)
        if document["bailiff_proof"] != PROOF_FORMAT:
            raise VerificationFailed(f"proof format {document['bailiff_proof']} is not supported by this release")
        pool, seq = str(document["pool"]), int(document["seq"])
        position = pool.encode(), b"%d" % seq
        headers = tuple((str(name), _unb64(content)) for name, content in document["headers"])
        wire = Wire(headers, _unb64(document["value"]))
        path = [bytes.fromhex(each) for each in document["path"]]
        seal = LogSealed.model_validate_json(json.dumps(document["seal"]))
        keys = [SealingKey.model_validate_json(json.dumps(each)) for each in document.get("keys", [])]
        leaf = leaf_hash(bytes.fromhex(record_hash(wire)))
    except (KeyError, TypeError, ValueError, ValidationError, RecursionError, OverflowError):
        raise VerificationFailed("not a valid proof, or incomplete") from None
    values = dict(headers)
    if (values.get("ce_pool"), values.get("ce_seq")) != position:
        raise VerificationFailed(f"the record's own headers do not name it {pool}#{seq}")
    check_seal(seal, pool)
    found = verified_keys(seal, pool, keys, trusted)
    if not included(leaf, seq, seal.size, path, bytes.fromhex(seal.root)):
        raise VerificationFailed(f"{pool}#{seq} with these bytes is not covered by {_what(seal)}")
    return VerifiedProof(pool, seq, wire, seal, found)


def verified_keys(seal: LogSealed, pool: str, keys: Sequence[SealingKey], trusted: Sequence[str]) -> list[str]:
    """The keys from the first trusted one, or else the first, to the seal's. Raises `VerificationFailed`."""
    if seal.key in trusted or not (keys or trusted):
        return [seal.key]
    if not keys:
        raise VerificationFailed(f"the seal was signed with key {seal.key}, which is not a trusted key")
    begin = next((at for at, body in enumerate(keys) if body.key in trusted), 0)
    chain = SealChain(pool, frozenset(trusted), seal.identity)
    for body in keys[begin:]:
        chain.take(body)
    if chain.keys[-1] != seal.key:
        raise VerificationFailed(f"the seal was signed with key {seal.key}, but the last key of the proof is {chain.keys[-1]}")
    return chain.keys


def _unb64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError("not text")
    return base64.b64decode(text, validate=True)
