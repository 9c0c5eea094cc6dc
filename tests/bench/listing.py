"""`bailiff list` and `explain` of a pool that one user floods, the console's first view of it, and the memory of every service.

The log is synthetic; Kafka, the commands and the services are real. A hundred thousand jobs, or with `--quick` ten thousand.
"""

import asyncio
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from statistics import median

import asyncpg
import httpx

from bailiff_bus import topics
from bailiff_bus.kafka import KafkaBus
from bailiff_devstack.stack import API, AUDITOR, CONSOLE, ROLLUP, Plan, Stack
from bailiff_service.access_tokens import API_TOKEN_FILE

from .cli_start import COMMAND, as_installed
from .console_log import POOL
from .flooded_log import DIGEST_EVERY, flooded_log
from .restart import write_log
from .system import megabytes
from .table import Row, Run

FEW, MANY, QUICK = 100, 100_000, 10_000  # jobs
SERVICES = ("victim-selection", "eviction-executor", ROLLUP, AUDITOR, API, CONSOLE, "admission")
"""One after the other. Admission is the last: it ends what was never decided."""
WITHIN_S = 600
ARCHIVED = 'SELECT (SELECT max("offset") FROM records) >= $1 AND (SELECT max(seq) FROM snapshots) >= $2'
Seconds = tuple[float, float]
"""On the clock, and of the processor."""


def measure(run: Run) -> list[Row]:
    """The baseline of the commands is a pool of a hundred jobs."""
    jobs, times = (QUICK, 3) if run.quick else (MANY, 7)
    _, few, _, _, _ = _commands(run, FEW, times)
    cold, many, first, memory, view = _commands(run, jobs, times, SERVICES)
    few_are, on_machine = f"s: {FEW} jobs", f"{jobs:,} jobs, the first on a machine"
    rows = [Row(f"bailiff {what}, {jobs:,} jobs", many[what][0], "s", "≤ 1 s", few[what][0], few_are) for what in many]
    rows += [Row(f"the same: processor time of {what}", many[what][1], "s", "-", few[what][1], few_are) for what in many]
    for what, (wall, used) in first.items():
        rows.append(Row(f"bailiff {what}, {on_machine}", wall, "s", "≤ 1 s", cold[0], "s: list without the HTTP API"))
        rows.append(Row(f"the same: processor time of {what}", used, "s", "-", cold[1], "s: list without the HTTP API"))
    rows.append(Row(f"console, {jobs:,} jobs: request → first view of the pool, slowest of five", view, "s", "≤ 1 s"))
    return rows + [
        Row(f"memory of {service} that has read {jobs:,} jobs", now, "MB", "≤ 600 MB", peak, "MB: at most")
        for service, (now, peak) in memory.items()
    ]


def _commands(
    run: Run, jobs: int, times: int, services: Sequence[str] = ()
) -> tuple[Seconds, dict[str, Seconds], dict[str, Seconds], dict[str, tuple[float, float]], float]:
    """Of the first list without the HTTP API, and the medians of each command after it; of each as the first, with it.

    And the services' memory, now and at most, and the console's view.
    """
    stack, view = Stack(run.folder / str(jobs), Plan(archive=bool(services), api=bool(services))), 0.0
    stack.folder.mkdir(parents=True, exist_ok=True)
    try:
        stack.start_kafka()
        asyncio.run(write_log(stack, flooded_log(jobs, time.time_ns() // 1000 - 3_600_000_000)))
        environment = {"BAILIFF_KAFKA__BOOTSTRAP": stack.kafka.bootstrap, "XDG_CACHE_HOME": str(stack.folder)}
        cold = _seconds(["list"], environment)
        job = f"job-{jobs // 2}"
        asked = {"list": ["list"], "explain": ["explain", job], "describe": ["describe", job]}
        _seconds(asked["explain"], environment)
        found, first = {}, {}
        for what, arguments in asked.items():
            wall, used = zip(*(_seconds(arguments, environment) for _ in range(times)), strict=True)
            found[what] = median(wall), median(used)
        run.say(f"{jobs:,} jobs: {cold}, then {found}, load {os.getloadavg()[0]:.1f}")
        memory = {}
        if services:
            stack.postgres.start()
        for service in services:
            stack.start_service(service)
            stack.processes.wait_ready(service, timeout_s=WITHIN_S)
            if service == AUDITOR:
                asyncio.run(_archived(stack))
            if service == API:
                first = {what: _first(stack, arguments, environment, times) for what, arguments in asked.items()}
                run.say(f"the first: {first}, load {os.getloadavg()[0]:.1f}")
            if service == CONSOLE:
                view = _first_view(stack)
            memory[service] = megabytes(stack)[service], megabytes(stack, peak=True)[service]
            run.say(f"{service}: {memory[service]} MB, {view} s")
            stack.processes.stop(service)
        return cold, found, first, memory, view
    finally:
        stack.close()


def _seconds(arguments: Sequence[str], environment: Mapping[str, str]) -> Seconds:
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([COMMAND, *arguments], env=as_installed(environment), capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _first(stack: Stack, arguments: Sequence[str], environment: Mapping[str, str], times: int) -> Seconds:
    """The medians of a command on machines that have no snapshot yet."""
    token = str(stack.folder / "state" / API_TOKEN_FILE)
    served = {**environment, "BAILIFF_SNAPSHOTS": stack.api, "BAILIFF_API_TOKEN_FILE": token}
    measured = []
    for number in range(times):
        cache = stack.folder / f"cache-{arguments[0]}-{number}"
        measured.append(_seconds(arguments, {**served, "XDG_CACHE_HOME": str(cache)}))
        shutil.rmtree(cache)
    wall, used = zip(*measured, strict=True)
    return median(wall), median(used)


async def _archived(stack: Stack) -> None:
    """The archive has the whole log, and the snapshot near its end."""
    bus = KafkaBus(stack.kafka.bootstrap)
    end = (await bus.spans(topics.AUDIT.name))[0].end
    await bus.close()
    connection = await asyncpg.connect(stack.postgres.dsn)
    try:
        async with asyncio.timeout(WITHIN_S):
            while not await connection.fetchval(ARCHIVED, end - 1, end - DIGEST_EVERY):  # noqa: ASYNC110 - of another process
                await asyncio.sleep(1.0)
    finally:
        await connection.close()


def _first_view(stack: Stack) -> float:
    """Seconds until a page has its first snapshot, the slowest of five."""
    times = []
    with httpx.Client(base_url=stack.console, timeout=WITHIN_S) as http:
        http.get("/auth/sign-in", params={"token": stack.console_token})
        for _ in range(5):
            began = time.perf_counter()
            with http.stream("GET", f"/api/pools/{POOL}/live") as answer:
                lines = answer.iter_lines()
                while not next(lines).startswith("event: snapshot"):
                    pass
                next(lines)
            times.append(time.perf_counter() - began)
    return max(times)
