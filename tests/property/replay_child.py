"""Replays logs in a separate process. Input: logs as JSON Lines, separated by blank lines; output: one JSON line each.

Under other hash seeds and Python versions the output must be equal: the bytes of the replayed decisions, the head's hash, the
state's digest.
"""

import hashlib
import json
import sys

from bailiff_core.fold.snapshot import from_snapshot, state_digest, to_snapshot
from bailiff_core.records import Break, ChainHead, Wire, continues, decode, encode
from bailiff_core.replay import Replay


def main() -> None:
    """Replay all logs on stdin."""
    for block in sys.stdin.read().split("\n\n"):
        if block.strip():
            print(json.dumps(summary_of(block), sort_keys=True))


def summary_of(block: str) -> dict[str, object]:
    """The result of the replay in this Python."""
    replay = Replay()
    head: ChainHead | None = None
    again = hashlib.sha256()
    for line in block.splitlines():
        entry = json.loads(line)
        headers = tuple((name, value.encode()) for name, value in entry["headers"])
        wire = Wire(headers, entry["value"][0].encode())
        record = decode(wire)
        again.update(repr(encode(record)).encode())
        after = continues(head or ChainHead(record.pool), wire)
        assert not isinstance(after, Break), after
        head = after
        replay.feed(record, wire)
    assert head is not None
    return {
        "difference": None if replay.difference is None else str(replay.difference),
        "decisions": replay.decisions,
        "cycles": replay.cycles,
        "bytes": again.hexdigest(),
        "head": head.hash,
        "digest": state_digest(replay.state),
        "restored": state_digest(from_snapshot(to_snapshot(replay.state))),
    }


if __name__ == "__main__":
    main()
