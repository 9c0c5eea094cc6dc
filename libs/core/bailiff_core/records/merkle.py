"""Merkle trees of RFC 6962 (section 2.1), over SHA-256: roots, inclusion proofs, consistency proofs.

A leaf is `leaf_hash` of some data; Bailiff's data are the 32-byte hashes of the records, in log order. Paths go
from the leaf, or the smaller tree, to the root.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import lt

EMPTY = hashlib.sha256(b"").digest()
Subtree = Callable[[int, int], bytes]
"""The root over the leaves from one position up to another."""


def leaf_hash(data: bytes) -> bytes:
    """Returns the hash of one leaf."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Returns the hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Frontier:
    """An append-only tree that keeps only the roots of its perfect subtrees, the largest first."""

    __slots__ = ("peaks", "size")

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size, self.peaks = size, list(peaks)
        if len(self.peaks) != size.bit_count():
            raise ValueError(f"a tree of {size} leaves has {size.bit_count()} perfect subtrees, not {len(self.peaks)}")

    def append(self, leaf: bytes) -> None:
        """Appends a leaf hash."""
        peaks, size = self.peaks, self.size
        while size & 1:
            leaf = node_hash(peaks.pop(), leaf)
            size >>= 1
        peaks.append(leaf)
        self.size += 1

    def extend(self, leaves: Iterable[bytes]) -> None:
        """Appends leaf hashes, level by level: half the time of single appends."""
        level, above, smaller = list(leaves), self.size, list[bytes]()
        self.size += len(level)
        while level:
            if above & 1:
                level.insert(0, self.peaks.pop())
            if len(level) & 1:
                smaller.append(level.pop())
            level = [node_hash(left, right) for left, right in zip(level[::2], level[1::2], strict=True)]
            above >>= 1
        self.peaks += reversed(smaller)

    def root(self) -> bytes:
        """Returns the root over all leaves."""
        if not self.peaks:
            return EMPTY
        root = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            root = node_hash(peak, root)
        return root

    def copy(self) -> "Frontier":
        """Returns an independent copy."""
        return Frontier(self.size, self.peaks)

    def followed_by(self, later: Sequence[bytes]) -> Subtree:
        """Returns subtree roots of this tree extended by `later` leaf hashes: of ranges within them, or starting at a peak."""
        spans, at = {}, 0
        for bit, peak in zip(_bits(self.size), self.peaks, strict=True):
            spans[at, at + bit] = peak
            at += bit

        def subtree(low: int, high: int) -> bytes:
            if high <= self.size:
                return spans[low, high]
            tree = Frontier(max(0, self.size - low), [peak for (begin, _), peak in spans.items() if begin >= low])
            tree.extend(later[max(0, low - self.size) : high - self.size])
            return tree.root()

        return subtree


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Returns the root over these leaf hashes."""
    tree = Frontier()
    tree.extend(leaves)
    return tree.root()


def subtrees_of(leaves: Sequence[bytes]) -> Subtree:
    """Returns subtree roots computed from all leaf hashes."""
    return lambda low, high: root_of(leaves[low:high])


def inclusion_path(index: int, size: int, subtree: Subtree) -> list[bytes]:
    """Returns the inclusion proof of the leaf at `index` in the tree of `size` leaves (RFC 6962, 2.1.1).

    Raises:
        ValueError: If it is invalid.
    """
    if not 0 <= index < size:
        raise ValueError(f"there is no leaf {index} in a tree of {size}")
    low, high, path = 0, size, []
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            path.append(subtree(middle, high))
            high = middle
        else:
            path.append(subtree(low, middle))
            low = middle
    return path[::-1]


def multiproof(indices: Sequence[int], size: int, subtree: Subtree) -> list[bytes]:
    """Returns the roots of the largest subtrees without any of these leaves, from left to right.

    Args:
        indices: Sorted, each once.

    Raises:
        ValueError: If they are not.
    """
    if not _are_leaves(indices, size):
        raise ValueError(f"not sorted leaves of a tree of {size}")

    def missing(own: Sequence[int], low: int, high: int) -> Iterator[bytes]:
        if not own:
            yield subtree(low, high)
        elif high - low > 1:
            middle = low + _split(high - low)
            at = bisect_left(own, middle)
            yield from missing(own[:at], low, middle)
            yield from missing(own[at:], middle, high)

    return list(missing(indices, 0, size))


def multiproof_root(leaves: Mapping[int, bytes], size: int, proof: Sequence[bytes]) -> bytes | None:
    """Returns the root that these leaf hashes, in their order, and their `multiproof` lead to; None: it is not theirs."""
    indices, rest = list(leaves), iter(proof)
    if not _are_leaves(indices, size):
        return None

    def root(own: Sequence[int], low: int, high: int) -> bytes:
        if not own:
            return next(rest)
        if high - low == 1:
            return leaves[low]
        middle = low + _split(high - low)
        at = bisect_left(own, middle)
        left = root(own[:at], low, middle)
        return node_hash(left, root(own[at:], middle, high))

    try:
        found = root(indices, 0, size)
    except StopIteration:
        return None
    return found if next(rest, None) is None else None


def _are_leaves(indices: Sequence[int], size: int) -> bool:
    """Whether they are leaves of a tree of `size`, sorted and each once."""
    return bool(indices) and indices[0] >= 0 and indices[-1] < size and all(map(lt, indices, indices[1:]))


def consistency_path(before: int, size: int, subtree: Subtree) -> list[bytes]:
    """Returns the proof that the tree of `before` leaves is a prefix of that of `size` (RFC 6962, 2.1.2).

    Raises:
        ValueError: If it is invalid.
    """
    if not 0 < before <= size:
        raise ValueError(f"a tree of {size} does not continue one of {before}")
    low, high, path, whole = 0, size, [], True
    while before < high:
        middle = low + _split(high - low)
        if before <= middle:
            path.append(subtree(middle, high))
            high = middle
        else:
            path.append(subtree(low, middle))
            low, whole = middle, False
    if not whole:
        path.append(subtree(low, high))
    return path[::-1]


def included(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Whether the inclusion proof is valid (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    at, last, found = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if at & 1 or at == last:
            found = node_hash(sibling, found)
            while at and not at & 1:
                at, last = at >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        at, last = at >> 1, last >> 1
    return last == 0 and found == root


def consistent(before: int, size: int, path: Sequence[bytes], before_root: bytes, root: bytes) -> bool:
    """Whether the consistency proof is valid (RFC 9162, 2.1.4.2)."""
    if not 0 < before <= size:
        return False
    if before == size:
        return not path and before_root == root
    proof = list(path)
    if before & (before - 1) == 0:
        proof.insert(0, before_root)
    if not proof:
        return False
    at, last = before - 1, size - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    old = new = proof[0]
    for sibling in proof[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while at and not at & 1:
                at, last = at >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        at, last = at >> 1, last >> 1
    return last == 0 and old == before_root and new == root


def _split(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << (size - 1).bit_length() - 1


def _bits(size: int) -> list[int]:
    """The powers of two that sum to `size`, the largest first."""
    return [1 << at for at in range(size.bit_length() - 1, -1, -1) if size >> at & 1]
