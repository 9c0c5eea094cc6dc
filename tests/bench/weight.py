"""What Bailiff weighs on one machine: starting tasks, a task's supervisor, starting the whole system, its memory and idle time.

Memory is the proportional set size (PSS): pages that processes share count once.
"""

import asyncio
import json
import subprocess
import time
from pathlib import Path
from statistics import median

from bailiff_devstack.stack import Plan, Stack
from bailiff_node_agent.runtime.port import Launch, TaskKey
from bailiff_node_agent.runtime.process import ProcessRuntime

from .system import cpu_seconds, spent
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
    raw = _raw_starts(count)
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
    supervisors = [json.loads((runtime.task_dir(key) / "running.json").read_text())["supervisor_pid"] for key in keys]
    weights = [_pss(pid) for pid in supervisors]
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


def _raw_starts(count: int) -> float:
    began = time.monotonic()
    started = [subprocess.Popen(COMMAND) for _ in range(count)]
    rate = count / (time.monotonic() - began)
    for process in started:
        process.kill()
        process.wait()
    return rate


def _system(run: Run) -> list[Row]:
    plan = Plan(archive=True, api=True, rollup=True, console=True, witness=True)
    idle_s = 20 if run.quick else 60
    with Stack(run.folder / "system", plan):
        pass  # the first start makes the database, the topics and the keys
    began = time.monotonic()
    with Stack(run.folder / "system", plan) as stack:
        ready = time.monotonic() - began
        stack.processes.wait_ready()
        time.sleep(idle_s / 4)
        before = cpu_seconds(stack)
        time.sleep(idle_s)
        used = {name: seconds / idle_s for name, seconds in spent(before, cpu_seconds(stack)).items()}
        memory = sum(_pss(stack.processes.pid(name)) for name in EIGHT)
    broker = 100 * used.pop("kafka")
    services = 100 * sum(used.values())
    return [
        Row("`make up`, warm, until the services are ready", ready, "s", target="≤ 7 s"),
        Row("memory of its eight services, idle (PSS)", memory / 1024, "MiB", target="≤ 300 MiB"),
        Row(
            "processor time of all services, idle, no jobs",
            services,
            "% of a core",
            baseline=100 * used[broker],
            baseline_is="Kafka",
        ),
    ]


def _pss(pid: int) -> int:
    """KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
