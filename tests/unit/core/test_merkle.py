"""Merkle trees: the test vectors that implementations of RFC 6962 share, and the shape of its own example."""

import pytest

from bailiff_core.records.merkle import (
    EMPTY,
    Frontier,
    consistency_path,
    consistent,
    included,
    inclusion_path,
    leaf_hash,
    node_hash,
    root_of,
    subtrees_of,
)

LEAVES = [
    leaf_hash(bytes.fromhex(text))
    for text in (*("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"),)
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def test_the_roots_are_those_of_the_shared_vectors() -> None:
    assert [root_of(LEAVES[:size]).hex() for size in range(1, 9)] == ROOTS
    assert root_of([]) == EMPTY


@pytest.mark.parametrize(
    ("index", "size", "path"),
    [
        (0, 1, []),
        (
            0,
            8,
            [
                "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
                "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
            ],
        ),
        (
            5,
            8,
            [
                "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
                "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            ],
        ),
        (2, 3, ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]),
    ],
)
def test_inclusion_paths_are_those_of_the_shared_vectors(index: int, size: int, path: list[str]) -> None:
    found = inclusion_path(index, size, subtrees_of(LEAVES))
    assert [each.hex() for each in found] == path
    assert included(LEAVES[index], index, size, found, bytes.fromhex(ROOTS[size - 1]))


@pytest.mark.parametrize(
    ("before", "size", "path"),
    [
        (1, 1, []),
        (
            1,
            8,
            [
                "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
                "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
            ],
        ),
        (
            6,
            8,
            [
                "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
                "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            ],
        ),
    ],
)
def test_consistency_paths_are_those_of_the_shared_vectors(before: int, size: int, path: list[str]) -> None:
    found = consistency_path(before, size, subtrees_of(LEAVES))
    assert [each.hex() for each in found] == path
    roots = bytes.fromhex(ROOTS[before - 1]), bytes.fromhex(ROOTS[size - 1])
    assert consistent(before, size, found, *roots)
    assert not consistent(before, size, found, roots[1], roots[0]) or before == size


def test_the_example_of_the_rfc_with_seven_leaves_has_its_shape() -> None:
    a, b, c, d, e, f, j = LEAVES[:7]
    g, h, i = node_hash(a, b), node_hash(c, d), node_hash(e, f)
    k, m = node_hash(g, h), node_hash(i, j)
    assert root_of(LEAVES[:7]) == node_hash(k, m)
    tree = subtrees_of(LEAVES)
    assert inclusion_path(0, 7, tree) == [b, h, m]
    assert inclusion_path(3, 7, tree) == [c, g, m]
    assert inclusion_path(4, 7, tree) == [f, j, k]
    assert inclusion_path(6, 7, tree) == [i, k]
    assert consistency_path(3, 7, tree) == [c, d, g, m]
    assert consistency_path(4, 7, tree) == [m]
    assert consistency_path(6, 7, tree) == [i, j, k]


def test_a_frontier_that_does_not_fit_its_size_is_refused() -> None:
    with pytest.raises(ValueError, match="2 perfect subtrees"):
        Frontier(3, [LEAVES[0]])
