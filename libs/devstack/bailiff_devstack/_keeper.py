"""Repeats `make up` when a process that it started has ended: `python _keeper.py STATE COMMAND...`.

An own loop, because a process supervisor would start each service in an interpreter of its own (three times the memory), and
one that is killed can't take over what it had started. A separate script of the standard library, since it runs all the time.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

POLL_S = 0.5
FIRST_DELAY_S = 1.0
LAST_DELAY_S = 60.0
STEADY_S = 60.0
"""After this time without an ended process the next delay is the first again."""


def main() -> None:
    """Watch the records of started processes, which `make down` removes."""
    state, command = Path(sys.argv[1]), sys.argv[2:]
    delay, repaired = FIRST_DELAY_S, 0.0
    while True:
        time.sleep(POLL_S)
        ended = [record.name.removesuffix(".pid.json") for record in state.glob("*/*.pid.json") if not _runs(record)]
        if not ended:
            continue
        delay = FIRST_DELAY_S if time.monotonic() - repaired > STEADY_S else min(2 * delay, LAST_DELAY_S)
        print(
            f"{time.strftime('%Y-%m-%d %H:%M:%S')} ended: {', '.join(sorted(ended))}; starting again in {delay:g} s", flush=True
        )
        time.sleep(delay)
        subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
        repaired = time.monotonic()


def _runs(record: Path) -> bool:
    """Whether the recorded process exists and is no zombie, or the record has just been removed."""
    try:
        recorded = json.loads(record.read_text())
    except (FileNotFoundError, ValueError):
        return True
    try:
        state, *fields = Path(f"/proc/{recorded['pid']}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in (b"Z", b"X") and int(fields[18]) == recorded["started"]


if __name__ == "__main__":
    main()
