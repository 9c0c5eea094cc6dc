"""`make up`, `make status` and `make down` on a state folder."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from bailiff_devstack.identity import Identity, read_record, wait_until
from bailiff_devstack.updown import FOLDERS

PATIENCE_S = 120.0


class Up:
    """One state folder, and the commands on it."""

    def __init__(self, state: Path) -> None:
        self.state = state

    def _command(self, what: str, *options: str) -> list[str]:
        return [sys.executable, "-m", "bailiff_devstack.updown", what, "--state", str(self.state), *options]

    def run(self, what: str, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self._command(what, *options), capture_output=True, text=True, check=False)

    def begin(self, what: str) -> subprocess.Popen[str]:
        def interruptible() -> None:  # also where the tests run in the background
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        return subprocess.Popen(self._command(what), stdout=subprocess.PIPE, text=True, preexec_fn=interruptible)

    def up(self, *options: str) -> str:
        done = self.run("up", *options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def bailiff(self, *arguments: str) -> str:
        command = [str(Path(sys.executable).with_name("bailiff")), *arguments]
        return subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=True).stdout

    def environment(self) -> dict[str, str]:
        """Of a shell in which the line that `make up` prints was typed."""
        settings = (line.removeprefix("export ").split("=", 1) for line in (self.state / "environment").read_text().splitlines())
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**os.environ, **{name: value.strip("'") for name, value in settings}, "PATH": path}

    def process(self, name: str) -> Identity:
        found = read_record(self.state / FOLDERS[name], name)
        assert found is not None
        return found

    def kill(self, name: str) -> Identity:
        process = self.process(name)
        process.signal(signal.SIGKILL)
        assert wait_until(lambda: not process.alive(), PATIENCE_S)
        return process
