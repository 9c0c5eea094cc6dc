"""The test vectors of the page's verifier equal the seals of the auditor's code."""

import json
from pathlib import Path

from bailiff_bus.messages.seals import LogSealed, SealingKey, SealsInvalidated
from bailiff_core.records.merkle import Frontier, leaf_hash, subtrees_of
from bailiff_log.seals import SealChain, make_invalidation, make_key, make_seal

ROOT = Path(__file__).parents[3]
LOG = json.loads((ROOT / "docs/log-protocol-vectors.json").read_text(encoding="utf-8"))["chain"]
VECTORS = ROOT / "services/console/frontend/src/verify/seal-vectors.json"
HASHES = [each["hash"] for each in LOG]
FIRST_KEY, SECOND_KEY = bytes(range(32)), bytes(range(32, 64))


def published() -> list[LogSealed | SealingKey | SealsInvalidated]:
    """Seals over 3 and 5 records, a new key, an invalidated seal over 7, and one over all 9."""
    leaves = [leaf_hash(bytes.fromhex(each)) for each in HASHES]

    def make_vector(key: bytes, size: int, before: int, at: int, losses: int = 0) -> LogSealed:
        tree = Frontier()
        for leaf in leaves[:size]:
            tree.append(leaf)
        return make_seal(key, "a100", HASHES[0], tree, HASHES[size - 1], at, before, subtrees_of(leaves), losses)

    time = 1_770_000_000_000_000
    over_five, over_seven = make_vector(FIRST_KEY, 5, 3, time + 1), make_vector(SECOND_KEY, 7, 5, time + 2)
    return [
        make_key(FIRST_KEY, "a100", HASHES[0]),
        make_vector(FIRST_KEY, 3, 0, time),
        over_five,
        make_key(SECOND_KEY, "a100", HASHES[0], FIRST_KEY),
        over_seven,
        make_invalidation(SECOND_KEY, "a100", HASHES[0], over_five, over_seven, 6, 'größer "als" gedacht', time + 3),
        make_vector(SECOND_KEY, 9, 5, time + 4, losses=1),
    ]


def test_the_stored_vectors_equal_the_published_seals() -> None:
    bodies = published()
    chain = SealChain("a100")
    for body in bodies:
        chain.take(body)
    names = {LogSealed: "LogSealed", SealingKey: "SealingKey", SealsInvalidated: "SealsInvalidated"}
    items = [{"offset": at, "kind": names[type(body)], "data": body.to_data()} for at, body in enumerate(bodies)]
    assert json.loads(VECTORS.read_text(encoding="utf-8")) == items
