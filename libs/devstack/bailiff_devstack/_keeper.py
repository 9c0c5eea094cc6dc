"""Repeats `make up` when a process that it started has ended, and ends services that do not answer.

    python _keeper.py STATE COMMAND...

An own loop, because a process supervisor would start each service in an interpreter of its own (three times the memory), and
one that is killed can't take over what it had started. A separate script of the standard library, since it runs all the time.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

POLL_S = 0.5
FIRST_DELAY_S = 1.0
LAST_DELAY_S = 60.0
STEADY_S = 60.0
"""After this time without its end the next delay of a process is the first again."""
PROBE_EVERY_S = 10.0
ANSWER_WITHIN_S = 5.0
SILENT_FOR_S = 60.0
"""A service that has answered no probe for so long is ended. Long, because a service on a busy machine may be slow."""


class Delays:
    """When what has ended is started again: after a delay of its own, which doubles with each end that follows soon."""

    def __init__(self) -> None:
        self._delays: dict[str, float] = {}
        self._started: dict[str, float] = {}
        self._due: dict[str, float] = {}

    def is_due(self, ended: set[str], now: float) -> bool:
        """Whether one of these has waited for long enough."""
        self._due = {name: at for name, at in self._due.items() if name in ended}
        for name in sorted(ended - self._due.keys()):
            is_steady = name not in self._started or now - self._started[name] > STEADY_S
            delay = FIRST_DELAY_S if is_steady else min(2 * self._delays[name], LAST_DELAY_S)
            self._delays[name], self._due[name] = delay, now + delay
            _log(f"ended: {name}; starting again in {delay:g} s")
        return any(at <= now for at in self._due.values())

    def started(self, now: float) -> None:
        """All that had ended was started again."""
        self._started |= dict.fromkeys(self._due, now)
        self._due.clear()


def main() -> None:
    """Watch the records of started processes, which `make down` removes."""
    state, command = Path(sys.argv[1]), sys.argv[2:]
    delays, probed = Delays(), 0.0
    silent: dict[int, float] = {}
    while True:
        time.sleep(POLL_S)
        if time.monotonic() - probed > PROBE_EVERY_S:
            end_silent(state, silent)
            probed = time.monotonic()
        ended = {record.name.removesuffix(".pid.json") for record in state.glob("*/*.pid.json") if not _runs(record)}
        if delays.is_due(ended, time.monotonic()):
            subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
            delays.started(time.monotonic())


def _log(text: str) -> None:
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}", flush=True)


def end_silent(state: Path, silent: dict[int, float]) -> None:
    """Kill services that run and have not answered for `SILENT_FOR_S`, as those that are stopped or stuck.

    Args:
        silent: Since when each process has not answered, by pid; brought up to date.
    """
    for record in state.glob("services/*.pid.json"):
        name = record.name.removesuffix(".pid.json")
        address, recorded = state / "state" / f"{name}.address", _recorded(record)
        if recorded is None or not address.exists() or not _runs(record):
            continue
        if _answers(address.read_text().strip()):
            silent.pop(recorded["pid"], None)
        elif time.monotonic() - silent.setdefault(recorded["pid"], time.monotonic()) > SILENT_FOR_S:
            _log(f"{name} has not answered for {SILENT_FOR_S:g} s: ending it")
            os.kill(recorded["pid"], signal.SIGKILL)
            del silent[recorded["pid"]]


def _answers(address: str) -> bool:
    """Whether the service at this URL answers at all. One that is stopped takes connections, but does not."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=ANSWER_WITHIN_S) as connection:
            connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            return bool(connection.recv(1))
    except (OSError, ValueError):
        return False


def _recorded(record: Path) -> dict[str, int] | None:
    try:
        found: dict[str, int] = json.loads(record.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found


def _runs(record: Path) -> bool:
    """Whether the recorded process exists and is no zombie, or the record has just been removed."""
    recorded = _recorded(record)
    if recorded is None:
        return True
    try:
        state, *fields = Path(f"/proc/{recorded['pid']}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in (b"Z", b"X") and int(fields[18]) == recorded["started"]


if __name__ == "__main__":
    main()
