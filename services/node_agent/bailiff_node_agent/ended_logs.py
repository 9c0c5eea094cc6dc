"""Which logs of ended tasks are kept on the node: those of some days, within a limit of disk space for all of them."""

import os
from collections.abc import Collection
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from .runtime.job_files import MAX_ENTRIES

DAY_US = 86_400_000_000


class EndedLogs(NamedTuple):
    """kept_bytes: disk space of those that may stay. expired: to be removed, the oldest first."""

    kept_bytes: int
    expired: list[Path]


def ended_logs(folder: Path, running: Collection[str], before_us: int, most_bytes: int) -> EndedLogs:
    """Whatever is in the folder of logs, but for these names. before_us: µs UTC; what has not changed since then has expired.

    most_bytes: of all that stay; 0: no limit. Those that do not fit beside the newer ones expire, too. Counts from the last
    change of any kind: what a task may set itself, as the time of a file's content, says nothing.
    """
    found = []
    with suppress(OSError), os.scandir(folder) as entries:  # a folder that is missing, or a disk that fails: there is next time
        for entry in islice(entries, MAX_ENTRIES):
            if entry.name not in running:
                with suppress(FileNotFoundError):  # removed meanwhile
                    status = entry.stat(follow_symlinks=False)
                    found.append((status.st_ctime_ns // 1000, status.st_blocks * 512, entry.name))
    found.sort(reverse=True)
    kept, expired = 0, list[Path]()
    for changed, size, name in found:
        is_beyond = bool(most_bytes) and kept + size > most_bytes
        if is_beyond or changed < before_us:
            expired.append(folder / name)
        else:
            kept += size
    return EndedLogs(kept, expired[::-1])
