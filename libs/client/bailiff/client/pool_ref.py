"""A pool, and which log it has."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolRef:
    """A pool that has a log.

    Attributes:
        partition: The partition of `bailiff.audit`.
        identity: Hash of the log's first record.
        root_key: The key that it names; empty: nothing is signed.
    """

    name: str
    partition: int
    identity: str
    root_key: str = ""
