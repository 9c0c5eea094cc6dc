"""A job for tests/kits/partitions.py: it holds a lock for each of its GPUs, so that two jobs on one GPU are found.

Usage: partition_job.py victim|urgent. Notes are in the folder `PARTITION_MARKS`: `JOB`, a line for each start with attempt and
rank; `DEVICE.lock`; `twice`, a line for each start while another process had the GPU. A victim listens to its notice and ignores
it. An urgent job ends once `JOB.go` exists.
"""

import fcntl
import os
import sys
import time
from pathlib import Path

from bailiff_job import attach

POLL_S = 0.05

marks, name = Path(os.environ.get("PARTITION_MARKS", ".")), os.environ.get("BAILIFF_JOB_ID", "alone")


def main(kind: str) -> None:
    """Run until stopped, or told to end."""
    if kind == "victim":
        attach()
    locks = [(marks / f"{device}.lock").open("w") for device in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]
    for lock in locks:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note("twice", f"{name} on {Path(lock.name).stem}")
    note(name, f"{os.environ['BAILIFF_ATTEMPT']} {os.environ['RANK']}")
    while kind == "victim" or not (marks / f"{name}.go").exists():
        time.sleep(POLL_S)


def note(file: str, line: str) -> None:
    """Append a line."""
    with (marks / file).open("a") as notes:
        notes.write(f"{line}\n")


if __name__ == "__main__":
    main(sys.argv[1])
