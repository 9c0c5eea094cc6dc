"""What Bailiff weighs on one machine: starting tasks, a task's supervisor, starting the whole system, its memory and idle time.

Memory is the proportional set size (PSS): pages that processes share count once.
"""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from bailiff_devstack.identity import recorded
from bailiff_node_agent.runtime.port import Launch, TaskKey
from bailiff_node_agent.runtime.process import ProcessRuntime

from .system import processor_s
from .table import Row, Run

EIGHT = ("admission", "victim-selection", "eviction-executor", "node-agent", "auditor", "api", "rollup", "console")
COMMAND = ("sleep", "600")


def measure(run: Run) -> list[Row]:
    """Tasks of one agent's runtime, then the services of `make up`."""
    tasks = 50 if run.quick else 200
    run.say(f"starting {tasks} tasks")
    rows = asyncio.run(_tasks(run.folder / "tasks", tasks))
    run.say("starting the system of `make up`, twice")
    return [*rows, *_system(run)]


async def _tasks(folder: Path, count: int) -> list[Row]:
    raw = raw_starts(count)
    runtime = ProcessRuntime(folder)
    keys = [TaskKey(f"job-{number}", 1, "0") for number in range(2 * count)]
    await runtime.start(Launch(TaskKey("first", 1, "0"), list(COMMAND)))
    began = time.monotonic()
    for key in keys[:count]:
        await runtime.start(Launch(key, list(COMMAND)))
    in_turn = count / (time.monotonic() - began)
    began = time.monotonic()
    await asyncio.gather(*(runtime.start(Launch(key, list(COMMAND))) for key in keys[count:]))
    at_once = count / (time.monotonic() - began)
    supervisors = [json.loads((runtime.folders.task(key) / "running.json").read_text())["supervisor_pid"] for key in keys]
    weights = [pss(pid) for pid in supervisors]
    for key in (TaskKey("first", 1, "0"), *keys):
        await runtime.kill(key)
        await runtime.wait_exit()
    await runtime.close()
    about = f"subprocess.Popen, {count} times"
    return [
        Row("tasks started by one runtime, one after another", in_turn, "/s", baseline=raw, baseline_is=about),
        Row("tasks started by one runtime, all at once", at_once, "/s", target="≥ 60 /s", baseline=raw, baseline_is=about),
        Row("memory of a task's supervisor (PSS), median", median(weights) / 1024, "MiB", target="≤ 3 MiB"),
    ]


def raw_starts(count: int) -> float:
    """Processes started per second by `subprocess.Popen` alone."""
    began = time.monotonic()
    started = [subprocess.Popen(COMMAND) for _ in range(count)]
    rate = count / (time.monotonic() - began)
    for process in started:
        process.kill()
        process.wait()
    return rate


def _system(run: Run) -> list[Row]:
    state, idle_s = run.folder / "state", 20 if run.quick else 60
    _make(state, "up")  # makes the database, the topics and the keys
    _make(state, "down")
    try:
        began = time.monotonic()
        _make(state, "up")
        ready = time.monotonic() - began
        pids = {name: identity.pid for name, identity in recorded(state / "services").items()}
        (broker,) = (identity.pid for identity in recorded(state / "kafka").values())
        time.sleep(idle_s / 4)
        before = {pid: processor_s(pid) for pid in (*pids.values(), broker)}
        time.sleep(idle_s)
        used = {pid: 100 * (processor_s(pid) - earlier) / idle_s for pid, earlier in before.items()}
        memory = sum(pss(pids[name]) for name in EIGHT)
    finally:
        _make(state, "down")
    kafka = used.pop(broker)
    return [
        Row("`make up`, warm, until it prints how to reach it", ready, "s", target="≤ 7 s"),
        Row("memory of its eight services, idle (PSS)", memory / 1024, "MiB", target="≤ 300 MiB"),
        Row("all services idle, no jobs", sum(used.values()), "% of a core", "≤ 1.5 %", kafka, "%: Kafka"),
    ]


def _make(state: Path, what: str) -> None:
    command = [sys.executable, "-m", "bailiff_devstack.updown", what, "--state", str(state)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def pss(pid: int) -> int:
    """KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
