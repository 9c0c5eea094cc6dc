"""Inclusion proofs of records: created from any source, checked from the file alone."""

import json
from collections.abc import Sequence
from typing import Any, TypedDict

from bailiff.client.errors import NotAsSealed, NotFound, UsageError
from bailiff_bus.messages.seals import LogSealed, SealingKey
from bailiff_bus.port import Message
from bailiff_core.records.merkle import leaf_hash
from bailiff_core.records.wire import time_text
from bailiff_log.chain_verifier import ChainVerifier
from bailiff_log.seals import VerificationFailed, check_proof, make_proof

from .log_sources import Source
from .object_path import AnyPath


class CheckedProof(TypedDict):
    """The result of `bailiff audit check-proof`.

    Attributes:
        problem: The reason if `ok` is false.
    """

    ok: bool
    problem: str
    pool: str
    sealed_records: int
    sealed_at: str
    key: str
    keys: list[str]


class Checked(CheckedProof):
    """That of one record."""

    seq: int
    type: str
    time: str
    data: Any


def not_proved(problem: str) -> CheckedProof:
    """The result where a check failed."""
    return {"ok": False, "problem": problem, "pool": "", "sealed_records": 0, "sealed_at": "", "key": "", "keys": []}


def proved_by(seal: LogSealed, pool: str, keys: list[str]) -> CheckedProof:
    """The result where all checks passed.

    Args:
        keys: From the trusted one to the seal's.
    """
    at, size = time_text(seal.sealed_at), seal.size
    return {"ok": True, "problem": "", "pool": pool, "sealed_records": size, "sealed_at": at, "key": seal.key, "keys": keys}


async def prove(source: Source, seq: int, seal: LogSealed, keys: Sequence[SealingKey] = ()) -> dict[str, Any]:
    """Proves that the record `seq` is in the log under this seal.

    Args:
        keys: The key handovers up to that of the seal.

    Raises:
        ClientError: The log does not match the seal.
    """
    first = source.start.next_seq
    if seq < first:
        raise NotFound(f"{source.pool}#{seq} is missing: this log begins with record {first}")
    verifier, tree, leaves = ChainVerifier(source.pool), source.tree.copy(), list[bytes]()
    verifier.resume(source.start, "", -1, ())
    wanted: Message | None = None
    async for message in source.messages:
        if verifier.verify(message) is None:
            continue
        leaves.append(leaf_hash(bytes.fromhex(verifier.head.hash)))
        tree.append(leaves[-1])
        if tree.size == seq + 1:
            wanted = message
        if tree.size == seal.size:
            break
    if wanted is None or tree.root().hex() != seal.root:
        raise NotAsSealed(seal.size)
    return make_proof(source.pool, seq, wanted.headers, wanted.value, seal, source.tree.followed_by(leaves), keys)


def checked(file: AnyPath, trust: list[str]) -> Checked:
    """Checks the proof.

    Raises:
        ClientError: The file cannot be read.
    """
    try:
        text = file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None
    try:
        proved = check_proof(text, trust)
    except VerificationFailed as no:
        return {**not_proved(str(no)), "seq": -1, "type": "", "time": "", "data": None}
    headers = {name: value.decode(errors="replace") for name, value in proved.wire.headers}
    return {
        **proved_by(proved.seal, proved.pool, proved.keys),
        "seq": proved.seq,
        "type": headers.get("ce_type", ""),
        "time": headers.get("ce_time", ""),
        "data": _data(proved.wire.value),
    }


def _data(value: bytes) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None
