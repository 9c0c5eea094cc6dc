"""The job that is measured: `program.py HOW GIB FOLDER [torch]`. It trains on the GPU, saves when it is preempted, and leaves.

HOW: `saves` leaves by itself; `deaf` ignores notice and TERM; `orphan` has a child that keeps the context, and leaves; `zombie`
has a child with a context that nobody waits for; `checkpoint` writes all of the GPU's memory to disk, and reads it back when it
is started again; `limits` writes down what it may use. With GIB 0 it uses no GPU, for machines without one. It uses CUDA's
driver library, or PyTorch.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), *os.environ.get("MEASURED_JOB_LIBRARY", "").split(os.pathsep)]

from cuda import Cuda, CudaError  # noqa: E402

GIB = 1 << 30
CHUNK = 256 << 20
STEP_S = 0.02


def mark(file: Path, text: str) -> None:
    """Nobody reads half of it."""
    draft = file.with_name(f".{file.name}-{os.getpid()}")
    draft.write_text(text)
    draft.replace(file)


def write_all(file: Any, buffer: Any) -> None:
    """A raw file may take less than it is given."""
    view, done = memoryview(buffer), 0
    while done < len(view):
        done += file.write(view[done:])


def read_all(file: Any, buffer: Any) -> None:
    """Fill the buffer. Raises `EOFError`."""
    view, done = memoryview(buffer), 0
    while done < len(view):
        count = file.readinto(view[done:])
        if not count:
            raise EOFError(f"{file.name} is too short")
        done += count


def gpu_memory(gib: float) -> Any:
    """So much memory of the GPU, in use as long as the result lives; None for none."""
    if not gib:
        return None
    if "torch" in sys.argv[4:]:
        import torch

        memory = torch.zeros(int(gib * GIB), dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        return memory
    cuda = Cuda()
    address = cuda.allocate(int(gib * GIB))
    cuda.fill(address, 1, int(gib * GIB))
    return cuda, address


def forked(gib: float, marks: Path, *, detached: bool) -> None:
    """A child that takes the memory; a detached one outlives this process and ignores TERM."""
    child = os.fork()
    if child:
        while not (marks / "child").exists():
            time.sleep(0.01)
        return
    if detached:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    memory = gpu_memory(gib)
    mark(marks / "child", str(os.getpid()))
    if detached:
        time.sleep(3600)
    del memory
    os._exit(0)  # nobody waits for it: it stays a zombie until its parent ends


def train(how: str, gib: float, marks: Path) -> None:
    """Steps until preempted."""
    from bailiff_job import attach

    if how == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if how in ("orphan", "zombie"):
        (marks / "child").unlink(missing_ok=True)
        forked(gib, marks, detached=how == "orphan")
    memory = gpu_memory(gib) if how != "orphan" else None  # noqa: F841 - in use until this process ends
    job = attach()
    step = job.restore(lambda folder: json.loads((folder / "step.json").read_text()))
    mark(marks / "holds", str(os.getpid()))
    while True:
        time.sleep(STEP_S)
        job.progress(step)
        if how != "deaf" and job.should_checkpoint(step):
            job.checkpoint(step, lambda folder, at=step: (folder / "step.json").write_text(json.dumps(at)))
        if how != "deaf" and job.preempted:
            job.exit()
        step += 1


def whole_memory(gib: float, marks: Path) -> None:
    """Writes the GPU's memory to a checkpoint when preempted, and reads it back at the next start, comparing every byte."""
    from bailiff_job import attach

    cuda, size = Cuda(), int(gib * GIB) // CHUNK * CHUNK
    address, buffer = cuda.allocate(size), cuda.host_buffer(CHUNK)
    seconds = dict.fromkeys(("copy", "disk"), 0.0)

    def timed(leg: str, call: Any, *arguments: Any) -> None:
        began = time.monotonic()
        call(*arguments)
        seconds[leg] += time.monotonic() - began

    def save(folder: Path) -> None:
        with (folder / "memory").open("wb", buffering=0) as file:
            for at in range(0, size, CHUNK):
                timed("copy", cuda.to_host, buffer, address + at, CHUNK)
                timed("disk", write_all, file, buffer)
            timed("disk", os.fsync, file.fileno())

    def load(folder: Path) -> None:
        with (folder / "memory").open("rb", buffering=0) as file:
            for at in range(0, size, CHUNK):
                timed("disk", read_all, file, buffer)
                timed("copy", cuda.to_device, address + at, buffer, CHUNK)

    def report(what: str, began: float) -> None:
        found = {"bytes": size, "seconds": time.monotonic() - began, **seconds}
        mark(marks / f"{what}.json", json.dumps(found))

    job, began = attach(), time.monotonic()
    if job.restore(load):
        report("read", began)
        for at in range(0, size, CHUNK):
            cuda.to_host(buffer, address + at, CHUNK)
            if bytes(memoryview(buffer)) != (at // CHUNK + 1).to_bytes(4, sys.byteorder) * (CHUNK // 4):
                sys.exit("the memory that was read back differs from the one that was saved")
        (marks / "same").touch()
        job.done()
        return
    for at in range(0, size, CHUNK):
        cuda.fill(address + at, at // CHUNK + 1, CHUNK)
    mark(marks / "holds", str(os.getpid()))
    while not job.should_checkpoint(1):
        time.sleep(STEP_S)
        job.progress(1)
    began = time.monotonic()
    job.checkpoint(1, save)
    report("written", began)
    job.exit()


def limits(gib: float, marks: Path) -> None:
    """What a share of the GPU may use: multiprocessors, and whether memory beyond the share is refused."""
    cuda = Cuda()
    found: dict[str, Any] = {"multiprocessors": cuda.multiprocessors(), "refused": False}
    try:
        cuda.allocate(int(gib * GIB))
    except CudaError as error:
        found |= {"refused": True, "error": str(error)}
    mark(marks / f"limits-{os.environ['BAILIFF_JOB_ID']}.json", json.dumps(found))
    time.sleep(3600)


def main() -> None:
    """See above."""
    how, gib, marks = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
    if how == "checkpoint":
        whole_memory(gib, marks)
    elif how == "limits":
        limits(gib, marks)
    else:
        train(how, gib, marks)


if __name__ == "__main__":
    main()
