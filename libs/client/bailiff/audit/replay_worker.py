"""Folds a log and replays a part of it with the imported core: of this release, or of another one.

`engine_child` runs this file with the wheel of another release. Releases must therefore keep the names of the core used
here: `replay.Replay` (`feed`, `skip`, `search`, `state`, its counts, `difference`, `proposal_differences`), `fold.apply`,
`records.decode` and `records.Wire`. Releases before `search` existed do not search again; before `skip`, records are only folded.
"""

from typing import Any

from bailiff_core.fold import apply
from bailiff_core.records import Wire, decode
from bailiff_core.replay import Replay


class ReplayWorker:
    """One engine on one log. Takes every record from the first one on, until it is done.

    done: takes no more records, after a difference or an unreadable record.
    """

    def __init__(self) -> None:
        self.replay = Replay()
        self.error = ""
        self.done = False
        self._at: Wire | None = None

    def take(self, wire: Wire, again: bool, search: bool = False) -> None:
        """Folds the next record; with `again` also replays it and compares. Errors are kept for `found`.

        Args:
            search: Whether a later proposal was computed on the state after this record.
        """
        try:
            record = decode(wire)
            if again:
                self.replay.feed(record, wire)
            elif hasattr(self.replay, "skip"):
                self.replay.skip(record)
            else:
                apply(self.replay.state, record)
            if search and hasattr(self.replay, "search"):
                self.replay.search()
        except Exception as failure:  # noqa: BLE001 - a log that was tampered with may fail anywhere in the fold
            unreadable = type(failure).__name__ == "UnreadableRecord"
            seq = dict(wire.headers).get("ce_seq", b"?").decode(errors="replace")
            self.error = str(failure) if unreadable else f"#{seq}: {type(failure).__name__}: {failure}"
        if self.error or self.replay.difference is not None:
            self.done, self._at = True, wire

    def found(self) -> dict[str, Any]:
        """The result as JSON. Headers and value of the differing record are in Latin-1, byte for byte."""
        replay, difference = self.replay, self.replay.difference
        details = None
        if difference is not None and self._at is not None:
            details = {
                "seq": difference.seq,
                "cycle": difference.cycle,
                "expected": difference.expected,
                "found": difference.found,
                "headers": [[name, value.decode("latin-1")] for name, value in self._at.headers],
                "value": self._at.value.decode("latin-1"),
            }
        return {
            "cycles": replay.cycles - replay.skipped_cycles,
            "decisions": replay.decisions,
            "digests": replay.digests,
            "difference": details,
            "error": self.error,
            "proposals": getattr(replay, "proposals", 0),
            "not_reproduced": getattr(replay, "not_reproduced", 0),
            "proposal_differences": [each.to_data() for each in getattr(replay, "proposal_differences", ())],
        }
