"""The other steps of `make test-gpu`: each gives rows of the page, also where it cannot run."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bailiff_core.records import facts
from bailiff_node_agent import mps

from .evictions import PROGRAM
from .machine import GIB, Machine, command_exists, nvidia_smi, torch_version
from .page import NO_GPU, Row, Section
from .pool import Pool

ROOT = Path(__file__).parents[2]
SAME_MIB = 64
PROBE = 512 << 20
DISK_S = 40
"""Time for writing the checkpoint; a slow disk gets a smaller one."""


async def telemetry(pool: Pool, machine: Machine) -> Section:
    """What the agent measures, beside what nvidia-smi says, while a job has memory of the GPU."""
    what = "memory in use and utilization, as the agent measures them and as nvidia-smi says"
    if not machine.has_card or not command_exists("nvidia-smi"):
        return Section("Telemetry", [Row(what, outcome=missing(machine, "nvidia-smi"))])
    await pool.submit("seen", (sys.executable, PROGRAM, "saves", f"{machine.held_gib:g}", str(pool.folder)))
    await pool.until("it has its memory", lambda: pool.phase("seen") == "running" and (pool.folder / "holds").exists())
    [other] = [each for each in nvidia_smi("uuid", "memory.used", "utilization.gpu") if each["uuid"] == machine.gpu]
    used = machine.inventory.usage(machine.gpu).memory_used >> 20
    busy = machine.inventory.utilization(machine.gpu)
    differ = abs(used - int(other["memory.used"])) > SAME_MIB
    shown = f"{used} MiB, {busy} %; nvidia-smi: {other['memory.used']} MiB, {other['utilization.gpu']} %"
    await pool.end("seen")
    return Section("Telemetry", [Row(what, outcome=f"{'FAILED: ' if differ else ''}{shown}", failed=differ)])


async def checkpoint(pool: Pool, machine: Machine) -> Section:
    """The GPU's memory to disk when preempted, and back at the next start."""
    names = (
        *("preempted: GPU to host", "preempted: to disk", "preempted: saved and committed", "restored: from disk"),
        *("restored: host to GPU", "restored: in all, verified"),
    )
    gib = min(machine.held_gib, free_disk(pool.folder) / GIB / 2)
    if machine.has_card:
        gib = min(gib, await asyncio.to_thread(disk_speed, pool.folder) * DISK_S / GIB)
    if not machine.has_card or gib < 1:
        return Section("Checkpoint of the GPU's memory", [Row(name, unit="GB/s") for name in names])
    await pool.submit("big", (sys.executable, PROGRAM, "checkpoint", f"{gib:g}", str(pool.folder)), grace_s=300)
    (pool.folder / "holds").unlink(missing_ok=True)
    await pool.until("it has filled its memory", lambda: (pool.folder / "holds").exists())
    await pool.submit("urgent-big", ("true",), gpus=len(pool.state.nodes[0].devices), kind="inference")
    await pool.until("it has been read back", lambda: pool.phase("big") in ("succeeded", "failed"), 240)
    written, read = (json.loads((pool.folder / f"{name}.json").read_text()) for name in ("written", "read"))
    size, same = written["bytes"] / 1e9, (pool.folder / "same").exists()
    legs = (written["copy"], written["disk"], written["seconds"], read["disk"], read["copy"], read["seconds"])
    rows = [Row(name, [size / max(seconds, 1e-9)], "GB/s") for name, seconds in zip(names, legs, strict=True)]
    outcome = f"{size:.1f} GB, every byte the same" if same else "FAILED: the memory differs"
    return Section("Checkpoint of the GPU's memory", [*rows, Row("saved, evicted, restored", outcome=outcome, failed=not same)])


async def shared_by_mps(pool: Pool, machine: Machine) -> Section:
    """Two halves of a GPU: each has half of the multiprocessors, and no memory beyond its half."""
    title, what = "Sharing by MPS", "two halves: multiprocessors of each; more than half of the memory"
    control = "nvidia-cuda-mps-control"
    if not machine.has_card or not command_exists(control):
        return Section(title, [Row(what, outcome=missing(machine, control))])
    if mps.daemon_runs():
        return Section(title, [Row(what, outcome="– (an MPS daemon runs already)")])
    env = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(mps.PIPES), "CUDA_MPS_LOG_DIRECTORY": str(pool.folder)}
    await asyncio.to_thread(subprocess.run, [control, "-d"], env=env, check=True, timeout=30)
    try:
        await pool.until("the MPS daemon runs", mps.daemon_runs)
        gib = machine.inventory.list()[0].memory / GIB * 0.6
        for job in ("half-1", "half-2"):
            await pool.submit(job, (sys.executable, PROGRAM, "limits", f"{gib:g}", str(pool.folder)), gpu_share_milli=500)
        files = [pool.folder / f"limits-half-{number}.json" for number in (1, 2)]
        await pool.until("both have found their limits", lambda: all(file.exists() for file in files))
        found: list[dict[str, Any]] = [json.loads(file.read_text()) for file in files]
        failed = not all(each["refused"] for each in found)
        shown = " and ".join(f"{each['multiprocessors']}" for each in found)
        refused = "FAILED: not refused" if failed else "refused"
        for job in ("half-1", "half-2"):
            await pool.end(job)
        await pool.submit("whole-again", ("true",))
        await pool.until("the whole GPU is given out again", lambda: pool.phase("whole-again") == "succeeded")
        return Section(title, [Row(what, outcome=f"{shown}; {refused}", failed=failed)])
    finally:
        await asyncio.to_thread(subprocess.run, [control], input="quit\n", text=True, env=env, check=False, timeout=30)


async def two_ranks(pool: Pool, machine: Machine) -> Section:
    """torchrun with two ranks on one GPU, preempted and resumed."""
    title, what = "Two ranks on one GPU", "torchrun, gloo: preempted at one step, both restored, weights as computed"
    if not machine.has_card or not torch_version():
        return Section(title, [Row(what, outcome=missing(machine, "PyTorch"))])
    script = str(Path(__file__).with_name("ranks.py"))
    run = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script, str(pool.folder), "1")
    await pool.submit("ranks", run)
    await pool.until("both train", lambda: all((pool.folder / f"rank-{rank}").exists() for rank in (0, 1)), 90)
    since = len(pool.records)
    await pool.submit("urgent-ranks", ("true",), gpus=len(pool.state.nodes[0].devices), kind="inference")
    await pool.until("the ranks have ended", lambda: pool.phase("ranks") in ("succeeded", "failed"), 120)
    exited, released = (pool.find(kind, since, job="ranks") for kind in (facts.TaskExited, facts.TaskReleased))
    files = [pool.folder / f"same-{rank}" for rank in (0, 1)]
    same = [file.exists() and file.read_text() == "True" for file in files]
    failed = not all(same) or exited is None or released is None
    return Section(title, [Row(what, outcome="FAILED" if failed else "as computed", failed=failed)])


async def own_tests(machine: Machine) -> Section:
    """The tests that are marked `gpu`."""
    title, what = "Tests", "`pytest -m gpu`"
    if not machine.has_card:
        return Section(title, [Row(what, outcome=NO_GPU)])
    run = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "gpu",
        "-p",
        "no:cacheprovider",
        "tests/gpu",
        "tests/unit/node_agent/test_devices.py",
    ]
    code, output = await bounded(run, 120)
    last = output.strip().splitlines()[-1] if output.strip() else "no output"
    return Section(title, [Row(what, outcome=last if code == 0 else f"FAILED: {last}", failed=code != 0)])


async def demo(limit_s: float) -> Section:
    """`make demo GPUS=nvml`, where Kafka and Java are installed."""
    title, what = "Demo", "`make demo GPUS=nvml`"
    try:
        from bailiff_devstack import demo as _  # noqa: F401
    except ImportError as missing:
        return Section(title, [Row(what, outcome=f"not run: {missing}")])
    if limit_s < 60:
        return Section(title, [Row(what, outcome="not run: no time was left")])
    code, output = await bounded([sys.executable, "-m", "bailiff_devstack.demo", "--gpus", "nvml"], limit_s)
    if "The demo did not start" in output:
        return Section(title, [Row(what, outcome=f"not run: {output.partition('did not start: ')[2].splitlines()[0]}")])
    proved = [line for line in output.splitlines() if line.startswith(("bit-identical", "verified", "replayed"))]
    outcome = "; ".join(" ".join(line.split()) for line in proved) or (output.strip().splitlines() or ["no output"])[-1]
    return Section(title, [Row(what, outcome=outcome if code == 0 else f"FAILED: {outcome}", failed=code != 0)])


def missing(machine: Machine, what: str) -> str:
    """Why there is no outcome."""
    return f"– ({what} is not installed)" if machine.has_card else NO_GPU


async def bounded(command: list[str], limit_s: float) -> tuple[int | None, str]:
    """Exit code and output. It is stopped at the limit."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    reading = asyncio.ensure_future(process.communicate())
    done, _ = await asyncio.wait([reading], timeout=limit_s)
    try:
        if not done:
            process.terminate()
            await asyncio.wait([reading], timeout=20)
        return (process.returncode, (await reading)[0].decode(errors="replace")) if reading.done() else (None, "it did not end")
    finally:
        if process.returncode is None:
            process.kill()


def disk_speed(folder: Path) -> float:
    """Bytes per second, written and synchronized."""
    size, file = PROBE, folder / "probe"
    began = time.monotonic()
    with file.open("wb") as out:
        out.write(os.urandom(1 << 20) * (size >> 20))
        out.flush()
        os.fsync(out.fileno())
    seconds = time.monotonic() - began
    file.unlink()
    return size / seconds


def free_disk(folder: Path) -> int:
    """Bytes."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
