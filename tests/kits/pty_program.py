"""A program under a pseudo-terminal, as a person would use it."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence

PATIENCE_S = float(os.environ.get("BAILIFF_TEST_PATIENCE_S", "60"))
PROGRAM = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); from bailiff.cli import main; main()"


class PtyProgram:
    """`bailiff` with these arguments. screen: all that it has printed."""

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str], rows: int = 24, columns: int = 80) -> None:
        self.master, self._slave = pty.openpty()
        self.resize(rows, columns)
        self.screen = ""
        self.first_mode = termios.tcgetattr(self._slave)
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env={**os.environ, **env},
            start_new_session=True,
        )

    def resize(self, rows: int, columns: int) -> None:
        """As when the window gets another size: the kernel sends SIGWINCH."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, text: str) -> str:
        """What was printed up to this text, and since the text that was waited for before; it is cut off from the screen."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.screen:
            assert time.monotonic() < deadline, f"no {text!r} in: {self.screen!r}"
            self._read(0.2)
        before, _, self.screen = self.screen.partition(text)
        return before

    def ended(self) -> int:
        """The exit code, once the program has ended."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it runs on: {self.screen!r}"
            self._read(0.1)
        self._read(0)
        return self.process.returncode

    @property
    def is_restored(self) -> bool:
        """Whether the terminal is as it was before."""
        return termios.tcgetattr(self._slave) == self.first_mode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self.master)
        os.close(self._slave)

    def _read(self, wait_s: float) -> None:
        while select.select([self.master], [], [], wait_s)[0]:
            with contextlib.suppress(OSError):
                self.screen += os.read(self.master, 65536).decode(errors="replace")
            wait_s = 0
