"""Replays logs in a process of its own: JSON Lines of one log per blank-line-separated block in, one line of JSON out each.

Run under other hash seeds and other Pythons, it must say the same: the bytes of the decisions it makes by itself, the
head's hash, the state's digest.
"""

import hashlib
import json
import sys

from bailiff_core.fold.snapshot import from_snapshot, state_digest, to_snapshot
from bailiff_core.records import Break, ChainHead, Wire, continues, decode, encode
from bailiff_core.replay import Replay


def main() -> None:
    """Reads all of stdin."""
    for block in sys.stdin.read().split("\n\n"):
        if block.strip():
            print(json.dumps(summary_of(block), sort_keys=True))


def summary_of(block: str) -> dict[str, object]:
    """What this Python makes of the log."""
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
