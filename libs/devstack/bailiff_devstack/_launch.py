"""Runs a command that dies with the process that started it: `python _launch.py PARENT_PID COMMAND...`.

A separate script because prctl must be called in the child, and calling it between fork and exec (preexec_fn) is not
safe in a program with threads. It replaces itself with the command, so the pid stays. Standard library only, since it
runs without Bailiff's packages on its path.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Request KILL from the kernel when the parent exits, then exec the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent died before prctl took effect
        sys.exit(1)
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell wanted
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
