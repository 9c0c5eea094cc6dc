"""An MPS daemon and its server, as far as one sees them from outside: processes with their names, and the daemon's folder."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

NAMED = "import sys; open('/proc/self/comm', 'w').write(sys.argv[1]); print(flush=True); sys.stdin.read()"


@contextlib.contextmanager
def named_process(name: str) -> Iterator[int]:
    """The pid of a process with this name."""
    command = [sys.executable, "-c", NAMED, name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.stdin.close()


@contextlib.contextmanager
def mps_daemon(pipes: Path) -> Iterator[Path]:
    """A daemon with this folder. Its socket stays when it has ended, as with the real one."""
    pipes.mkdir(parents=True, exist_ok=True)
    (pipes / "control").touch()
    with named_process("nvidia-cuda-mps-control") as pid:
        (pipes / "nvidia-cuda-mps-control.pid").write_text(f"{pid}\n")
        yield pipes
