"""Processor time of short `bailiff` commands, each in a process of its own, beside that of a bare interpreter."""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from bailiff_devstack.stack import Plan, Stack

from .restart import write_log
from .synthetic import plain_log
from .table import Row, Run

RECORDS = 100
COMMAND = str(Path(sys.executable).with_name("bailiff"))
TARGETS = {
    "version": "≤ 0.15 s",
    "--help": "-",
    "list": "≤ 0.35 s",
    "completion of a command": "≤ 0.2 s",
    "completion of an option": "≤ 0.2 s",
}


def measure(run: Run) -> list[Row]:
    """`list` reads a short log from a real Kafka; the others need nothing."""
    times = 3 if run.quick else 20
    bare = processor_seconds((sys.executable, "-c", "pass"), {}, times)
    rows = [
        row(what, processor_seconds((COMMAND, *arguments), environment, times), bare)
        for what, arguments, environment in (
            ("version", ("version",), {}),
            ("--help", ("--help",), {}),
            ("completion of a command", (), completion("bailiff li", 1)),
            ("completion of an option", (), completion("bailiff list --", 2)),
        )
    ]
    stack = Stack(run.folder, Plan())
    stack.folder.mkdir(parents=True, exist_ok=True)
    try:
        stack.start_kafka()
        asyncio.run(write_log(stack, islice(plain_log(RECORDS), RECORDS)))
        kafka = {"BAILIFF_KAFKA__BOOTSTRAP": stack.kafka.bootstrap, "XDG_CACHE_HOME": str(run.folder)}
        rows.append(row("list", processor_seconds((COMMAND, "list"), kafka, times), bare))
    finally:
        stack.close()
    return rows


def completion(line: str, word: int) -> dict[str, str]:
    """The environment in which a shell asks for the completion of this word of the line."""
    return {"_BAILIFF_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(word)}


def row(what: str, seconds: float, bare: float) -> Row:
    """One figure, less the bare interpreter's."""
    return Row(f"bailiff {what}: processor time", seconds - bare, "s", TARGETS[what], bare, "s: a bare interpreter")


def as_installed(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command: an installed one finds its modules compiled."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | dict(environment)


def processor_seconds(command: Sequence[str], environment: Mapping[str, str], times: int) -> float:
    """The minimum of this many runs, user and system time together: other load only adds to it."""
    least = float("inf")
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=as_installed(environment), capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        least = min(least, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return least
