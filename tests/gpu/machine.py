"""The machine that is measured, and what its GPU shows from outside."""

import contextlib
import ctypes
import importlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bailiff_node_agent.devices import NvmlInventory
from bailiff_node_agent.devices.release import TOLERANCE

GIB = 1 << 30
HELD_GIB = 20


@dataclass
class Machine:
    """has_card: whether CUDA works here, and not only NVML. baseline: bytes in use on the first GPU before anything ran."""

    inventory: NvmlInventory
    has_card: bool
    baseline: int

    @property
    def gpu(self) -> str:
        """The first GPU's id."""
        return self.inventory.list()[0].id

    @property
    def held_gib(self) -> float:
        """How much of the GPU jobs take: 20 GiB, or a quarter of a small GPU; 0 where there is none."""
        return min(HELD_GIB, self.inventory.list()[0].memory / GIB / 4) if self.has_card else 0

    def facts(self) -> dict[str, str]:
        """For the head of the page."""
        devices = self.inventory.list()
        cpu = next((line.split(": ")[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
        return {
            "GPUs": f"{len(devices)} × {devices[0].model}, {devices[0].memory / GIB:.0f} GiB"
            + ("" if self.has_card else " (mock)"),
            "driver": devices[0].labels["driver"],
            "PyTorch": torch_version() or "not installed",
            "CPUs": f"{os.cpu_count()}" + (f" × {cpu}" if cpu else ""),
            "kernel": platform.release(),
            "Python": platform.python_version(),
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "command": "`make test-gpu`",
        }


def open_machine() -> Machine:
    """Raises `NoDriver`."""
    inventory = NvmlInventory()
    return Machine(inventory, cuda_works(), inventory.usage(inventory.list()[0].id).memory_used)


ASK_CUDA = """
import ctypes, sys
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
sys.exit(cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or not count.value)
"""


def cuda_works() -> bool:
    """Whether CUDA has a GPU, asked in another process: it must not use the GPU in this one."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return subprocess.run([sys.executable, "-c", ASK_CUDA], capture_output=True).returncode == 0


def torch_version() -> str:
    """Empty where PyTorch is not installed."""
    with contextlib.suppress(ImportError):
        return str(importlib.import_module("torch").__version__)
    return ""


def command_exists(name: str) -> bool:
    """Whether this machine has the program."""
    return shutil.which(name) is not None


def nvidia_smi(*fields: str) -> list[dict[str, str]]:
    """What nvidia-smi says about each GPU."""
    asked = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    lines = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()
    return [dict(zip(fields, (cell.strip() for cell in line.split(",")), strict=True)) for line in lines]


@dataclass
class Freed:
    """ms from the end of the process: until the driver no longer lists it, and until its memory is free."""

    unlisted: float
    free: float


def watch_until_free(machine: Machine, pid: int, deadline_s: float, exited: Callable[[int], bool] | None = None) -> Freed | None:
    """Ask NVML every millisecond from now on. None if the GPU does not become free in time."""
    over, began = exited or has_exited, time.monotonic()
    ended = unlisted = None
    while (now := time.monotonic()) < began + deadline_s:
        if ended is None and over(pid):
            ended = now
        usage: Any = machine.inventory.usage(machine.gpu)
        if unlisted is None and pid not in usage.pids:
            unlisted = now
        if ended is not None and unlisted is not None and usage.memory_used <= machine.baseline + TOLERANCE:
            return Freed(1000 * max(0.0, unlisted - ended), 1000 * max(0.0, time.monotonic() - ended))
        time.sleep(0.001)
    return None


def has_exited(pid: int) -> bool:
    """Whether the process is gone, or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat[stat.rindex(b")") + 2 :][:1] in (b"Z", b"X")
