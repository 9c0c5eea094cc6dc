"""Positions of headers in a record, cached by list of header names: nearly all records have one of a few lists."""

from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter

Values = tuple[bytes, ...]

READ_HEADERS = (
    "ce_pool",
    "ce_seq",
    "ce_prev",
    "ce_type",
    "ce_epoch",
    "ce_time",
    "ce_source",
    "ce_engine",
    "ce_policy",
    "ce_essential",
    "ce_cycle",
    "ce_cycleend",
    "ce_cause",
    "ce_inputs",
    "ce_actor",
    "ce_auth",
    "ce_nextcontent",
    "ce_sig",
    "ce_request",
)
REQUIRED_HEADERS = frozenset(READ_HEADERS[:12]) - {"ce_essential"}
FORMAT_TAG = b"bailiff-audit-1"
CONTENT_TAG = b"bailiff-content-1"
NOT_CONTENT = frozenset({"ce_prev", "ce_sig"})


class Layout:
    """Layout of records with these header names, in this order. Values are an empty one, the headers', and the record's own.

    pick: returns the values of `READ_HEADERS`, in order; empty for missing ones, the last of duplicates. missing: required
    headers that are absent. hashed: returns the values that the hash covers, in order; None if a name occurs twice, since
    the order then depends on the values. prefixes: the bytes before each of these values, with slots for length and value.
    content_begin: the first of these bytes in the content hash. not_content: the headers that it leaves out, each with the slot
    of its value's length in the prefixes and its position in the record.
    """

    __slots__ = ("content_begin", "hashed", "missing", "names", "not_content", "pick", "prefixes")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        at = {name: number for number, name in enumerate(names, 1)}
        self.pick: Callable[[Values], Values] = itemgetter(*[at.get(name, 0) for name in READ_HEADERS])
        self.missing = ", ".join(sorted(REQUIRED_HEADERS - at.keys()))
        hashed = sorted(name for name in at if name.startswith("ce_"))
        prefixes = [*(prefixed(name.encode()) for name in hashed), b""]
        begin = len(hashed).to_bytes(4, "big") + prefixes[0]
        prefixes[0], self.content_begin = TAG + begin, prefixed(CONTENT_TAG) + begin
        self.prefixes = [part for before in prefixes for part in (before, b"", b"")]
        self.not_content = {name: (3 * number + 1, at[name] - 1) for number, name in enumerate(hashed) if name in NOT_CONTENT}
        self.hashed: Callable[[Values], Values] | None = None
        if len(at) == len(names) and hashed:
            self.hashed = itemgetter(*[at[name] for name in hashed], len(names) + 1)


def prefixed(part: bytes) -> bytes:
    """Returns the part after its length (4 bytes, big-endian)."""
    return len(part).to_bytes(4, "big") + part


@lru_cache(maxsize=64)
def layout_of(names: tuple[str, ...]) -> Layout:
    """Returns the layout of these names; the first and last are empty."""
    return Layout(names[1:-1])


TAG = prefixed(FORMAT_TAG)
