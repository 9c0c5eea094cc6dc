"""Writes a long, valid, sealed log as a folder of segments: `python -m tests.bench.sealed_folder FOLDER --records 10000000`.

Its records chain, fold, and are sealed as the auditor seals them. What stands in them as decisions was not decided
(`plain_log`), so
it is for `audit verify` only. Prints the key to trust.
"""

import argparse
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from bailiff.audit.log_files import message_line
from bailiff.audit.segment_writer import write_manifest, write_segment
from bailiff.audit.segments import Segment
from bailiff_bus.messages.seals import LogSealed, SealingKey
from bailiff_bus.port import Message
from bailiff_core.records import Break, ChainHead, Wire, continues
from bailiff_core.records.merkle import Frontier, leaf_hash
from bailiff_core.records.wire import time_value
from bailiff_log.keys import key_id
from bailiff_log.seals import make_key, make_seal

from .synthetic import POOL, plain_log

KEY = b"\x21" * 32
TRUST = key_id(KEY)
SEGMENT, SEAL_EVERY = 100_000, 10_000


class SealedLog:
    """Follows a log and seals it. head, tree: after the records so far."""

    def __init__(self, every: int) -> None:
        self.head, self.tree, self.seals, self._every = ChainHead(POOL), Frontier(), list[LogSealed | SealingKey](), every
        self._base, self._leaves, self._identity = Frontier(), list[bytes](), ""

    def lines(self, wires: Iterable[Wire]) -> Iterator[str]:
        """The lines of these records in a segment."""
        for wire in wires:
            after = continues(self.head, wire)
            assert not isinstance(after, Break), after
            time = time_value(after.time)
            self._follow(after, time)
            yield message_line(Message("bailiff.audit", 0, self.tree.size - 1, time, None, wire.headers, wire.value))

    def _follow(self, after: ChainHead, time: int) -> None:
        if not self._identity:
            self._identity = after.hash
            self.seals.append(make_key(KEY, POOL, self._identity))
        self.head = after
        self._leaves.append(leaf_hash(bytes.fromhex(after.hash)))
        self.tree.append(self._leaves[-1])
        if self.tree.size % self._every == 0:
            subtree = self._base.followed_by(self._leaves)
            self.seals.append(make_seal(KEY, POOL, self._identity, self.tree, after.hash, time, self._base.size, subtree))
            self._base, self._leaves = self.tree.copy(), []


def write_sealed(folder: Path, wires: Iterable[Wire], size: int = SEGMENT, every: int = SEAL_EVERY) -> None:
    """Whole segments of `size` records, sealed after each `every` records, of which `size` is a multiple."""
    log, source, segments = SealedLog(every), iter(wires), list[Segment]()
    while True:
        before, peaks = log.head, list(log.tree.peaks)
        lines = list(log.lines(islice(source, size)))
        if len(lines) < size:
            break
        segments.append(write_segment(folder, POOL, 0, lines, before, peaks, log.head))
    write_manifest(folder, POOL, 0, size, segments, log.seals)


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sealed_folder", description=__doc__.partition(":")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, default=10_000_000)
    options = parser.parse_args()
    write_sealed(options.folder, plain_log(options.records))
    print(f"{options.folder}: verify it with --trust {TRUST}")


if __name__ == "__main__":
    main()
