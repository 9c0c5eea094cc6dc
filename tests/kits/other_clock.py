"""A fake wall clock for processes that a test starts, changed while they run: libfaketime, preloaded into them.

Only the wall clock is faked. Monotonic and boot time stay true, as when an operator sets a machine's clock.
"""

from importlib.metadata import files
from pathlib import Path


class OtherClock:
    """The wall clock of processes started with `env`, in seconds ahead of the true time."""

    def __init__(self, file: Path, ahead_s: int = 0) -> None:
        self._file = file
        library = next(found for found in files("libfaketime") or () if found.name == "libfaketime.so.1")
        self.env = {
            "LD_PRELOAD": str(library.locate()),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self.set(ahead_s)

    def set(self, ahead_s: int) -> None:
        """Set the clock to this number of seconds ahead."""
        draft = self._file.with_suffix(".draft")
        draft.write_text(f"{ahead_s:+d}\n")
        draft.replace(self._file)
