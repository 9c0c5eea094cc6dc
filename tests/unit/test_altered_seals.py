"""What a holder of the sealing key alone can publish over an honest log, and what `audit verify` says of it."""

from dataclasses import dataclass, field

import pytest
from tests.kits.cosigned_log import END, FORK, KEY, LOG, NOW, OURS, SIZES, SealedLog

from bailiff.audit.verify import Verified, verified
from bailiff_core.records import Wire
from bailiff_core.records.merkle import Frontier, leaf_hash
from bailiff_log.seals import LogSealed, SealBody, make_invalidation, make_key, make_seal

STRANGER = b"\x09" * 32
FIRST, SECOND, THIRD = SIZES
KEYS, S1, S2, S3 = LOG.seals
IDENTITY = LOG.hashes[0]


@dataclass(frozen=True)
class Sealing:
    """How a seal over the first records is made."""

    size: int = THIRD
    before: int = SECOND
    key: bytes = KEY
    at: int = NOW
    head: str = ""
    wires: list[Wire] = field(default_factory=lambda: OURS)
    identity: str = IDENTITY
    losses: int = 0

    def seal(self) -> LogSealed:
        hashes = SealedLog(self.wires, ()).hashes
        leaves = [leaf_hash(bytes.fromhex(each)) for each in hashes[: self.size]]
        tree, base = Frontier(), Frontier()
        tree.extend(leaves)
        base.extend(leaves[: self.before])
        head, subtree = self.head or hashes[self.size - 1], base.followed_by(leaves[self.before :])
        return make_seal(self.key, "pool-a", self.identity, tree, head, self.at, self.before, subtree, self.losses)


def handed_over(before: bytes | None) -> SealBody:
    return make_key(STRANGER, "pool-a", IDENTITY, before)


def accepted_loss() -> SealBody:
    assert isinstance(S2, LogSealed)
    assert isinstance(S3, LogSealed)
    return make_invalidation(KEY, "pool-a", IDENTITY, S2, S3, SECOND, "x", NOW)


FOUND: dict[str, tuple[list[SealBody], str]] = {
    "a seal left out": ([KEYS, S1, S3], "does not continue"),
    "the first seal left out": ([KEYS, S2, S3], "which is missing"),
    "seals in another order": ([KEYS, S2, S1, S3], "which is missing"),
    "two seals of one size": ([KEYS, S1, S2, Sealing(SECOND, FIRST, wires=FORK).seal(), S3], "have different roots"),
    "another last record": ([KEYS, S1, Sealing(SECOND, FIRST, head="0" * 64).seal(), S3], "names another last record"),
    "another log's identity": ([KEYS, S1, S2, Sealing(identity="ab" * 32).seal()], "belongs to another log"),
    "another history": ([KEYS, S1, Sealing(SECOND, FIRST, wires=FORK).seal()], "are not the sealed ones"),
    "a proof from another seal": ([KEYS, S1, S2, Sealing(before=FIRST).seal()], "does not continue"),
    "a seal of a key that was replaced": ([KEYS, S1, handed_over(KEY), S2, S3], "was signed with key"),
    "more accepted losses than there were": ([KEYS, S1, S2, Sealing(losses=1).seal()], "seals say that 1 losses were accepted"),
}
JUDGED: dict[str, tuple[list[SealBody], str]] = {
    "a loss accepted that never was": ([KEYS, S1, S2, S3, accepted_loss()], "accepted loss"),
    "a key that the log's key has not signed": (
        [KEYS, S1, S2, handed_over(None), Sealing(key=STRANGER).seal()],
        "no key of the log vouched for",
    ),
}
UNSEEN: dict[str, tuple[list[SealBody], str]] = {
    "the newest seal left out": ([KEYS, S1, S2], "witnesses remember it"),
    "no seal at all": ([], "witnesses remember them"),
    "a seal before the one before it": ([KEYS, S1, S2, Sealing(at=NOW - 3_600_000_000).seal()], "the auditor's clock"),
    "the key handed over to a stranger": (
        [KEYS, S1, S2, handed_over(KEY), Sealing(key=STRANGER).seal()],
        "whoever holds the key may hand it over",
    ),
}


async def verified_with(seals: list[SealBody]) -> Verified:
    source = LOG.source(END)
    source.seals = seals
    return await verified(source)


@pytest.mark.parametrize("name", FOUND)
async def test_altered_seals_are_named(name: str) -> None:
    seals, text = FOUND[name]
    found = await verified_with(seals)
    assert not found["ok"]
    assert text in found["seal_problem"]


@pytest.mark.parametrize("name", JUDGED)
async def test_what_a_person_has_to_judge_is_named(name: str) -> None:
    seals, text = JUDGED[name]
    found = await verified_with(seals)
    assert found["ok"]
    assert text in " ".join(found["to_judge"])


@pytest.mark.parametrize("name", UNSEEN)
async def test_what_the_seals_alone_cannot_show(name: str) -> None:
    seals, reason = UNSEEN[name]
    found = await verified_with(seals)
    assert (found["ok"], found["to_judge"]) == (True, []), reason
