"""Parking a plain program, and letting it go on: how long that takes, beside saving it to disk."""

import asyncio
import sys
import time
from pathlib import Path
from statistics import median

from bailiff_node_agent.runtime import Launch, TaskKey
from bailiff_node_agent.runtime.process import ProcessRuntime, cgroups_of, freezer_of

from .snapshot import HOLDS
from .table import Row, Run

TIMES, MOST_S = 20, 0.2
KEY = TaskKey("plain", 0, "0")


def measure(run: Run) -> list[Row]:
    """A process that holds this much memory, by each freezer of this machine."""
    run.folder.mkdir(parents=True, exist_ok=True)
    megabytes, times = (256, 3) if run.quick else (1000, TIMES)
    rows = list[Row]()
    for version in ("v2", "v1"):
        took = asyncio.run(_parked(run.folder / version, version, megabytes, times))
        if not took:
            run.say(f"this machine has no freezer of cgroup {version} that this user may use")
            continue
        what = f"program of {megabytes} MB parked and resumed, freezer of cgroup {version}, median of {times}"
        middle = median(sum(each) for each in took)
        rows.append(Row(what, middle, "s", f"≤ {MOST_S} s", MOST_S, "s: the target", {"parked_s, resumed_s": took}))
    if not rows:
        raise RuntimeError("no usable freezer: be root, or have a cgroup delegated")
    return rows


async def _parked(folder: Path, version: str, megabytes: int, times: int) -> list[tuple[float, float]]:
    """Seconds to park it, and to let it go on; none where there is no such freezer."""
    logs = folder / "logs"
    logs.mkdir(parents=True)
    cgroups = cgroups_of(folder) if version == "v2" else None
    freezer = None if version == "v2" and cgroups is None else freezer_of(folder, cgroups)
    if freezer is None:
        return []
    runtime = ProcessRuntime(folder / "state", cgroups=cgroups, freezer=freezer)
    took = []
    try:
        await runtime.start(Launch(KEY, [sys.executable, "-I", "-S", "-c", HOLDS, str(megabytes)], log_dir=logs, working_dir="/"))
        while "ready" not in (logs / f"{KEY}.log").read_text():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.05)
        for _ in range(times):
            began = time.perf_counter()
            await runtime.park(KEY)
            parked = time.perf_counter()
            await runtime.unpark(KEY)
            took.append((parked - began, time.perf_counter() - parked))
    finally:
        await runtime.kill(KEY)
        await runtime.wait_exit()
        await runtime.forget(KEY)
        await runtime.close()
    return took
