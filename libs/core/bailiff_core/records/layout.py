"""Where each header stands in a record: looked up once per list of names, for nearly all records have one of a few."""

from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter

Values = tuple[bytes, ...]

READ_HEADERS = (
    "ce_pool", "ce_seq", "ce_prev", "ce_type", "ce_epoch", "ce_time",
    "ce_source", "ce_engine", "ce_policy", "ce_essential", "ce_cycle", "ce_cycleend", "ce_cause", "ce_inputs",
    "ce_actor", "ce_auth",
)  # fmt: skip
REQUIRED_HEADERS = frozenset(READ_HEADERS) - {"ce_essential", "ce_cause", "ce_inputs", "ce_actor", "ce_auth"}
FORMAT_TAG = b"bailiff-audit-1"


class Layout:
    """Of records whose headers have these names, in this order. Their values stand between an empty one and the record's own.

    pick: the values of `READ`, in its order; the empty one for what is missing, the last one of a name that stands twice.
    names: themselves. missing: needed ones that are not there. hashed: the values that the hash covers, in its order, and
    `befores` what stands before each of them, with room for length and value; None where a name stands twice, for then
    their order goes by the values.
    """

    __slots__ = ("befores", "hashed", "missing", "names", "pick")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        at = {name: number for number, name in enumerate(names, 1)}
        self.pick: Callable[[Values], Values] = itemgetter(*[at.get(name, 0) for name in READ_HEADERS])
        self.missing = ", ".join(sorted(REQUIRED_HEADERS - at.keys()))
        hashed = sorted(name for name in at if name.startswith("ce_"))
        befores = [*(prefixed(name.encode()) for name in hashed), b""]
        befores[0] = TAG + len(hashed).to_bytes(4, "big") + befores[0]
        self.befores = [part for before in befores for part in (before, b"", b"")]
        self.hashed: Callable[[Values], Values] | None = None
        if len(at) == len(names) and hashed:
            self.hashed = itemgetter(*[at[name] for name in hashed], len(names) + 1)


def prefixed(part: bytes) -> bytes:
    """The part behind its length in 4 bytes, big-endian."""
    return len(part).to_bytes(4, "big") + part


@lru_cache(maxsize=64)
def layout_of(names: tuple[str, ...]) -> Layout:
    """The layout of records with these names between two empty ones."""
    return Layout(names[1:-1])


TAG = prefixed(FORMAT_TAG)
