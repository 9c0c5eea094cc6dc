"""A job that leaves everything that could end or stop its node's agent, and then waits: `python hostile_job.py`."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

DEEP, LINKS = 3_000, 4_000


def nest(folder: str) -> None:
    """Folders within one another: no path reaches the deepest."""
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)


def main() -> None:
    control, scratch, checkpoints = (os.environ[f"BAILIFF_{name}"] for name in ("CONTROL_DIR", "SCRATCH_DIR", "CHECKPOINT_DIR"))
    nest(control)
    nest(scratch)
    for name in ("steps", "notice.json", "socket"):
        path = Path(control, name)
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    real = Path(checkpoints, "attempt-0001/step-00000001")
    real.mkdir(parents=True)
    (real / "manifest.json").write_bytes(b" " * (1 << 20))
    for number in range(2, LINKS + 2):
        Path(checkpoints, f"attempt-{number:04}").symlink_to("attempt-0001")
    for number, kind in enumerate((os.mkfifo, os.mkdir), start=2):
        folder = Path(checkpoints, f"attempt-0001/step-{number:08}")
        folder.mkdir()
        kind(folder / "manifest.json")
    os.mkfifo(Path(scratch, "fifo"))
    Path(scratch, "out").symlink_to("/")
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(scratch)
        made.bind("socket")
    Path(scratch, os.fsdecode(b"\xff" * 255)).touch()
    os.truncate(Path(scratch, os.fsdecode(b"\xff" * 255)), 1 << 40)
    stays = Path(scratch, "immutable")
    stays.touch()
    subprocess.run(["chattr", "+i", stays], check=False, capture_output=True)
    for number in range(40):
        os.lseek(1, number << 30, os.SEEK_SET)
        os.write(1, b"x" * 8191 + b"\n")
    os.ftruncate(1, 1 << 41)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(sys.argv[1]).touch()
    signal.pause()


if __name__ == "__main__":
    main()
