"""Merkle proofs: those of the tree hold, everything else does not, and a frontier suffices to continue."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from bailiff_core.records.merkle import (
    Frontier,
    consistency_path,
    consistent,
    included,
    inclusion_path,
    leaf_hash,
    multiproof,
    multiproof_root,
    node_hash,
    root_of,
    subtrees_of,
)

SIZES = st.integers(1, 200)
LEAVES = [leaf_hash(hashlib.sha256(b"%d" % number).digest()) for number in range(400)]


def by_definition(leaves: list[bytes]) -> bytes:
    """The root, literally by the definition of the RFC."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return node_hash(by_definition(leaves[:split]), by_definition(leaves[split:]))


@given(SIZES)
def test_the_root_is_the_one_that_the_rfc_defines(size: int) -> None:
    assert root_of(LEAVES[:size]) == by_definition(LEAVES[:size])


@given(SIZES, st.data())
def test_a_leaf_of_the_tree_is_proved_and_no_other(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    root, path = root_of(LEAVES[:size]), inclusion_path(index, size, subtrees_of(LEAVES[:size]))
    assert included(LEAVES[index], index, size, path, root)
    other = data.draw(st.integers(0, 399).filter(lambda number: number != index))
    assert not included(LEAVES[other], index, size, path, root)
    elsewhere = data.draw(st.integers(-1, size + 1).filter(lambda number: number != index))
    assert not included(LEAVES[index], elsewhere, size, path, root)
    assert not included(LEAVES[index], index, size, [*path, root], root)
    if path:
        cut = data.draw(st.integers(0, len(path) - 1))
        assert not included(LEAVES[index], index, size, path[:cut] + path[cut + 1 :], root)
        assert not included(LEAVES[index], index, size, [*path[:cut], LEAVES[399], *path[cut + 1 :]], root)


@given(SIZES, st.data())
def test_leaves_of_the_tree_are_proved_together_and_no_others(size: int, data: st.DataObject) -> None:
    chosen = sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1)))
    root, proof = root_of(LEAVES[:size]), multiproof(chosen, size, subtrees_of(LEAVES[:size]))
    leaves = {index: LEAVES[index] for index in chosen}
    assert multiproof_root(leaves, size, proof) == root
    assert len(proof) <= sum(len(inclusion_path(index, size, subtrees_of(LEAVES[:size]))) for index in chosen)
    one = data.draw(st.sampled_from(chosen))
    assert multiproof_root({**leaves, one: LEAVES[399]}, size, proof) != root
    assert multiproof_root({index: leaf for index, leaf in leaves.items() if index != one}, size, proof) != root
    assert multiproof_root({index + 1: leaf for index, leaf in leaves.items()}, size, proof) != root
    assert multiproof_root(leaves, size, [*proof, root]) is None
    if len(chosen) > 1:
        assert multiproof_root(dict(reversed(leaves.items())), size, proof) is None
    if proof:
        cut = data.draw(st.integers(0, len(proof) - 1))
        assert multiproof_root(leaves, size, proof[:cut] + proof[cut + 1 :]) is None
        assert multiproof_root(leaves, size, [*proof[:cut], LEAVES[399], *proof[cut + 1 :]]) != root


@given(SIZES, st.integers(0, 199), st.data())
def test_a_tree_that_was_only_appended_to_is_consistent_and_no_other(before: int, more: int, data: st.DataObject) -> None:
    size = before + more
    path = consistency_path(before, size, subtrees_of(LEAVES[:size]))
    old, new = root_of(LEAVES[:before]), root_of(LEAVES[:size])
    assert consistent(before, size, path, old, new)
    changed = data.draw(st.integers(0, size - 1))
    rewritten = [*LEAVES[:changed], leaf_hash(b"another"), *LEAVES[changed + 1 : size]]
    assert not consistent(before, size, consistency_path(before, size, subtrees_of(rewritten)), old, root_of(rewritten)) or (
        changed >= before
    )
    assert not consistent(before, size, [*path, new], old, new)
    assert not consistent(before, size, path[:-1], old, new) or not path


@given(SIZES, st.integers(0, 199))
def test_a_kept_frontier_and_the_later_leaves_give_the_same_consistency_proof(before: int, more: int) -> None:
    size = before + more
    kept = Frontier()
    for leaf in LEAVES[:before]:
        kept.append(leaf)
    one_by_one, at_once = kept.copy(), kept.copy()
    for leaf in LEAVES[before:size]:
        one_by_one.append(leaf)
    at_once.extend(LEAVES[before:size])
    assert (at_once.size, at_once.peaks) == (one_by_one.size, one_by_one.peaks)
    assert at_once.root() == root_of(LEAVES[:size])
    assert consistency_path(before, size, kept.followed_by(LEAVES[before:size])) == consistency_path(
        before, size, subtrees_of(LEAVES[:size])
    )
