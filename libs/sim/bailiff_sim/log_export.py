"""Writes a run's log in the format of `bailiff audit export`, for verify, replay and explain."""

import json

from bailiff_core.records import Record, Wire


class LogExport:
    """A sink that appends lines of the export file to `lines`; the first record adds the header line."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def __call__(self, record: Record, wire: Wire) -> None:
        """Appends a record."""
        if not self._lines:
            self._lines.append(json.dumps({"bailiff_log": 1, "pool": record.pool, "partition": 0}) + "\n")
        line = {
            "offset": record.seq,
            "time": record.time,
            "headers": [[name, value.decode()] for name, value in wire.headers],
            "value": wire.value.decode(),
        }
        self._lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")

    def nothing(self, record: Record, wire: Wire) -> None:
        """Sink that discards records."""
