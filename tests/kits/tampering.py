"""An archive that somebody with all rights on the database writes anew."""

import dataclasses
import re
from collections.abc import Sequence

from tests.kits.log_builder import Story

from bailiff_bus.messages.seals import LogSealed, SealingKey
from bailiff_bus.port import Message
from bailiff_core.records import ChainHead, Wire, continues
from bailiff_core.records.merkle import Frontier, leaf_hash
from bailiff_log.chain_verifier import Verification
from bailiff_log.seals import SealChain, SealVerifier, make_key, make_seal

Seals = Sequence[LogSealed | SealingKey]


def story(nonce: str) -> list[Wire]:
    """A short busy log."""
    built = Story(pool="pool-a")
    built.node("n1", gpus=4)
    for number in range(6):
        built.submit(f"{nonce}-{number}", gpus=1)
        built.started(f"{nonce}-{number}") if number < 4 else None
    for number in range(3):
        built.ends(f"{nonce}-{number}")
    return built.wires


OURS, OTHERS = story("train"), story("other")


def flip_header(messages: list[Message], at: int) -> list[Message]:
    headers = tuple((name, b"999" if name == "ce_policy" else value) for name, value in messages[at].headers)
    return [*messages[:at], dataclasses.replace(messages[at], headers=headers), *messages[at + 1 :]]


def write_anew(messages: list[Message], at: int) -> list[Message]:
    """One record changed, and every later one chained to it again, so that the chain is whole."""
    found, head = list(messages[:at]), ChainHead("pool-a")
    for message in found:
        after = continues(head, Wire(message.headers, message.value))
        assert isinstance(after, ChainHead)
        head = after
    for message in flip_header(messages, at)[at:]:
        headers = tuple((name, head.hash.encode() if name == "ce_prev" else value) for name, value in message.headers)
        after = continues(head, Wire(headers, message.value))
        assert isinstance(after, ChainHead)
        head = after
        found.append(dataclasses.replace(message, headers=headers))
    return found


def seals_of(messages: list[Message], private: bytes) -> list[LogSealed | SealingKey]:
    tree, head, identity = Frontier(), ChainHead("pool-a"), ""
    found: list[LogSealed | SealingKey] = []
    base, later = Frontier(), list[bytes]()
    for number, message in enumerate(messages, 1):
        after = continues(head, Wire(message.headers, message.value))
        assert isinstance(after, ChainHead)
        head, identity = after, identity or after.hash
        later.append(leaf_hash(bytes.fromhex(head.hash)))
        tree.append(later[-1])
        if number in (len(messages) // 3, 2 * len(messages) // 3, len(messages)):
            if not found:
                found.append(make_key(private, "pool-a", identity))
            found.append(make_seal(private, "pool-a", identity, tree, head.hash, number, base.size, base.followed_by(later)))
            base, later = tree.copy(), []
    return found


async def given(messages: Sequence[Message]):
    for message in messages:
        yield message


def walk_of(seals: Seals) -> SealVerifier:
    key = next(body.key for body in seals if isinstance(body, SealingKey))
    chain = SealChain("pool-a", frozenset([key]))
    for body in seals:
        chain.take(body)
    return SealVerifier(chain)


def named(found: Verification) -> set[int]:
    """Every seq in the report."""
    seqs = {orphan["offset"] for orphan in found["orphan_list"]}
    if found["broken"] is not None:
        at = int(found["broken"]["seq"]) if found["broken"]["seq"].isdigit() else found["broken"]["offset"]
        seqs |= {at - 1, at, found["broken"]["offset"], found["broken"]["offset"] - 1}
    for first, last in re.findall(r"records (\d+) to (\d+)", found["seal_problem"]):
        seqs |= set(range(int(first), int(last) + 1))
    for only in re.findall(r"from record (\d+) at the latest", found["seal_problem"]):
        seqs |= {int(only) - 1, int(only)}
    return seqs
