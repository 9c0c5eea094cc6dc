"""This machine's boot-time clock and boot id, and atomic writes of JSON files."""

import json
import os
import time
from typing import Any


def boottime_us() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def write_json(path: str, content: dict[str, Any]) -> None:
    """Atomically and durably. (The agent has its own function; a supervisor imports no Bailiff package.)

    Both may write the same file at the same time, so the temporary file has another name than the agent's.
    """
    new = f"{path}.by-supervisor"
    with open(new, "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(new, path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
