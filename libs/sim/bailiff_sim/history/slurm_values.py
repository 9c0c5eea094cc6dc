"""Values as Slurm writes them: job ids, states, TRES, GRES, lists of nodes, time limits."""

import re
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from .records import SECOND, State
from .values import Unreadable, elapsed, shown, whole

JOB_ID = re.compile(r"(\d+)(?:_(?:(\d+)|\[([^\]]*)\]))?(?:\+(\d+))?(\..+)?")
STATES: dict[str, State] = {
    "COMPLETED": "succeeded",
    "FAILED": "failed",
    "TIMEOUT": "failed",
    "OUT_OF_MEMORY": "failed",
    "DEADLINE": "failed",
    "BOOT_FAIL": "lost",
    "NODE_FAIL": "lost",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
    "PREEMPTED": "preempted",
    "REQUEUED": "requeued",
    "REQUEUE_HOLD": "requeued",
    "SPECIAL_EXIT": "requeued",
    "LAUNCH_FAILED": "lost",
    "RECONFIG_FAIL": "lost",
    "RUNNING": "running",
    "SUSPENDED": "running",
    "COMPLETING": "running",
    "RESIZING": "running",
    "STOPPED": "running",
    "STAGE_OUT": "running",
    "SIGNALING": "running",
    "CONFIGURING": "running",
    "PENDING": "pending",
    "REQUEUE_FED": "pending",
    "RESV_DEL_HOLD": "pending",
}
SHORT = {
    "CD": "COMPLETED",
    "F": "FAILED",
    "TO": "TIMEOUT",
    "OOM": "OUT_OF_MEMORY",
    "DL": "DEADLINE",
    "BF": "BOOT_FAIL",
    "NF": "NODE_FAIL",
    "CA": "CANCELLED",
    "RV": "REVOKED",
    "PR": "PREEMPTED",
    "RQ": "REQUEUED",
    "R": "RUNNING",
    "S": "SUSPENDED",
    "CG": "COMPLETING",
    "RS": "RESIZING",
    "PD": "PENDING",
    "CF": "CONFIGURING",
}
NO_LIMIT = ("", "UNLIMITED", "Partition_Limit", "INVALID", "NOT_SET")
MOST_NODES = 100_000
MEMORY = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([KMGTP]?)")
UNITS = {"K": 1 << 10, "": 1 << 20, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
RANGE = re.compile(r"(\d+)(?:-(\d+))?")


class JobId(NamedTuple):
    """job: of the whole job or array task; component: of a heterogeneous job; step: it is a step; waiting: array tasks."""

    job: str
    component: int
    step: bool
    waiting: int


@lru_cache(maxsize=1024)
def job_id(text: str) -> JobId:
    """`123`, `123_4`, `123_[5-9%2]`, `123+1`, `123.batch`."""
    found = JOB_ID.fullmatch(text)
    if found is None:
        raise Unreadable(f"expected a job id such as 123, 123_4, 123+1 or 123.batch, found {shown(text)}")
    number, task, waiting, component, step = found.groups()
    job = number if task is None else f"{number}_{task}"
    count = 1 if waiting is None else sum(high - low + 1 for low, high in _numbers(waiting.split("%")[0]))
    return JobId(job, int(component or 0), step is not None, count)


def state(text: str) -> State:
    """`COMPLETED`, `CANCELLED by 1000`, `CA`, `COMPLETED+` of a narrow column is not accepted."""
    word = text.split(" ", 1)[0]
    found = STATES.get(SHORT.get(word, word))
    if found is None:
        raise Unreadable(f"expected a state of Slurm, such as COMPLETED, found {shown(text)}")
    return found


class Gpus(NamedTuple):
    """number: GPUs of all nodes; model: empty if none or several are named; nodes: None if not given."""

    number: int
    model: str
    nodes: int | None


@lru_cache(maxsize=65_536)
def tres(text: str) -> Gpus:
    """`cpu=8,gres/gpu=4,gres/gpu:a100=4,node=1`: the plain count holds where both are given."""
    plain, typed, nodes = None, dict[str, int](), None
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            raise Unreadable(f"expected TRES such as cpu=8,gres/gpu=4, found {shown(text)}")
        if name == "gres/gpu":
            plain = whole(value)
        elif name.startswith("gres/gpu:"):
            typed[name.removeprefix("gres/gpu:")] = whole(value)
        elif name == "node":
            nodes = whole(value)
    model = next(iter(typed)) if len(typed) == 1 else ""
    return Gpus(sum(typed.values()) if plain is None else plain, model, nodes)


@lru_cache(maxsize=65_536)
def cpus_and_memory(text: str) -> tuple[int, int]:
    """Thousandths of CPUs and bytes of `cpu=8,mem=62.50G,gres/gpu=4`; 0 for what is not counted."""
    cpu_milli, memory = 0, 0
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name == "cpu":
            cpu_milli = 1000 * whole(value)
        elif name == "mem":
            found = MEMORY.fullmatch(value)
            if found is None:
                raise Unreadable(f"expected memory such as mem=64000M, found {shown(part)}")
            memory = int(Decimal(found[1]) * UNITS[found[2]])
    return cpu_milli, memory


@lru_cache(maxsize=4096)
def gres(text: str) -> Gpus:
    """`gpu:a100:4(S:0-1),gpu:2`, per node: of slurm.conf and of the old columns AllocGRES and ReqGRES."""
    count, models = 0, list[str]()
    for part in filter(None, re.split(r",(?![^(]*\))", text)):
        name, *rest = re.sub(r"\(.*?\)", "", part).removeprefix("gres:").split(":")
        if name != "gpu":
            continue
        number = rest.pop() if rest and re.fullmatch(r"\d+[KMG]?", rest[-1]) else "1"
        rest = [each for each in rest if each != "no_consume"]
        count += whole(number)
        models += rest
    return Gpus(count, models[0] if len(set(models)) == 1 else "", None)


@lru_cache(maxsize=65_536)
def nodes(text: str) -> tuple[str, ...]:
    """`gpu[01-04,7],cpu1`: each node."""
    if text in ("", "None", "None assigned", "(null)"):
        return ()
    found = list[str]()
    for part in re.split(r",(?![^\[]*\])", text):
        found += _expanded(part, text)
        if len(found) > MOST_NODES:
            raise Unreadable(f"expected at most {MOST_NODES:,} nodes, found {shown(text)}")
    return tuple(found)


def _expanded(part: str, text: str) -> list[str]:
    before, bracket, rest = part.partition("[")
    if not bracket:
        if not re.fullmatch(r"[\w.-]+", part):
            raise Unreadable(f"expected nodes such as gpu[01-04,7], found {shown(text)}")
        return [part]
    inside, closed, after = rest.partition("]")
    if not closed:
        raise Unreadable(f"expected nodes such as gpu[01-04,7], found {shown(text)}")
    tails = _expanded(after, text) if after else [""]
    found = list[str]()
    for piece in inside.split(","):
        ((low, high),) = _numbers(piece)
        width = len(piece.split("-")[0])
        found += [f"{before}{number:0{width}d}{tail}" for number in range(low, high + 1) for tail in tails]
    return found


def _numbers(text: str) -> list[tuple[int, int]]:
    found = list[tuple[int, int]]()
    for piece in text.split(","):
        match = RANGE.fullmatch(piece.split(":")[0])
        if match is None or int(match[2] or match[1]) - int(match[1]) not in range(MOST_NODES):
            raise Unreadable(f"expected numbers such as 01-04,7, found {shown(text)}")
        found.append((int(match[1]), int(match[2] or match[1])))
    return found


def time_limit(text: str) -> int | None:
    """µs of `TimelimitRaw` (minutes) or `Timelimit` (`1-00:00:00`); None: no limit."""
    if text in NO_LIMIT:
        return None
    return whole(text) * 60 * SECOND if text.isdecimal() else elapsed(text)
