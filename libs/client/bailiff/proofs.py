"""Proofs that a record is in the log: made from any source, checked from the file alone."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from bailiff_bus.messages import LogSealed, SealingKey
from bailiff_bus.port import Message
from bailiff_bus.seals import Disproved, check_proof, make_proof
from bailiff_bus.walk import Walk
from bailiff_core.records.merkle import leaf_hash
from bailiff_core.records.wire import time_text

from .problem import ExitCode, Problem
from .sources import Source


class Checked(TypedDict):
    """What `bailiff audit check-proof` found. `ok` is false where `problem` says why."""

    ok: bool
    problem: str
    domain: str
    seq: int
    type: str
    time: str
    data: Any
    sealed_records: int
    sealed_at: str
    key: str
    keys: list[str]


async def prove(source: Source, seq: int, seal: LogSealed, keys: Sequence[SealingKey] = ()) -> dict[str, Any]:
    """The proof that record `seq` is under this seal. keys: those up to the seal's.

    Raises `Problem` where the log is not what was sealed.
    """
    first = source.start.next_seq
    if seq < first:
        raise Problem(ExitCode.NOT_FOUND, f"{source.domain}#{seq} is not there: this log begins with record {first}")
    walk, tree, leaves = Walk(source.domain), source.tree.copy(), list[bytes]()
    walk.resume(source.start, "", -1, ())
    wanted: Message | None = None
    async for message in source.messages:
        if walk.judge(message) is None:
            continue
        leaves.append(leaf_hash(bytes.fromhex(walk.head.hash)))
        tree.append(leaves[-1])
        if tree.size == seq + 1:
            wanted = message
        if tree.size == seal.size:
            break
    if wanted is None or tree.root().hex() != seal.root:
        text = f"the log's first {seal.size} records are not those that were sealed"
        raise Problem(ExitCode.FOUND_WRONG, text, "see: bailiff audit verify")
    return make_proof(source.domain, seq, wanted.headers, wanted.value, seal, source.tree.followed_by(leaves), keys)


def checked(file: Path, trust: list[str]) -> Checked:
    """What the file proves, or why it does not. Raises `Problem` where there is no such file."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(ExitCode.USAGE, f"{file}: cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None
    found: Checked = {
        "ok": False, "problem": "", "domain": "", "seq": -1, "type": "", "time": "", "data": None, "sealed_records": 0,
        "sealed_at": "", "key": "", "keys": [],
    }  # fmt: skip
    try:
        proved = check_proof(text, trust)
    except Disproved as no:
        return {**found, "problem": str(no)}
    said = {name: value.decode(errors="replace") for name, value in proved.wire.headers}
    return {
        "ok": True, "problem": "", "domain": proved.domain, "seq": proved.seq, "type": said.get("ce_type", ""),
        "time": said.get("ce_time", ""), "data": _data(proved.wire.value), "sealed_records": proved.seal.size,
        "sealed_at": time_text(proved.seal.sealed_at), "key": proved.seal.key, "keys": proved.keys,
    }  # fmt: skip


def _data(value: bytes) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None
