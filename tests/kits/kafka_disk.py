"""Changes to the files of a stopped broker."""

import struct
from pathlib import Path

BATCH_HEADER = struct.Struct(">qi")  # base offset, and how many bytes follow


def cut_tail(partition: Path, offset: int) -> int:
    """Truncate a partition before the batch with this offset, as a disk that lost its newest pages.

    Returns the new end offset. Kafka's index files are deleted; the next start rebuilds them.
    """
    (segment,) = partition.glob("*.log")
    records, at, base = segment.read_bytes(), 0, 0
    while at < len(records):
        next_base, size = BATCH_HEADER.unpack_from(records, at)
        if next_base > offset:
            break
        before, base = at, next_base
        at += BATCH_HEADER.size + size
    with segment.open("r+b") as file:
        file.truncate(before)
    for derived in ("*.index", "*.timeindex", "*.txnindex", "*.snapshot", "leader-epoch-checkpoint"):
        for file in partition.glob(derived):
            file.unlink()
    (partition.parent / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (partition.parent / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    return base
