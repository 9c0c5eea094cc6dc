"""The short notation of the scenarios: `train, 4 x 2 gpus, in vision, on n1` becomes the fields of a snapshot."""

import re
from collections.abc import Callable, Mapping
from typing import Any

STATES = (
    "pending",
    "paused",
    "placed",
    "reserved",
    "running",
    "moved",
    "evicted",
    "releasing",
    "stuck_releasing",
    "succeeded",
    "failed",
    "gone",
)
CLASSES = ("inference", "build", "interactive", "train")
Fields = dict[str, Any]
Phrase = tuple[str, Callable[[re.Match[str], Fields], None]]


class Unclear(ValueError):
    """A phrase that means nothing."""


def phrases(text: str, known: list[Phrase], about: str) -> Fields:
    """The fields that the phrases, with commas between them, say. Raises `Unclear`."""
    fields: Fields = {}
    for phrase in filter(None, (part.strip() for part in text.split(","))):
        for pattern, take in known:
            match = re.fullmatch(pattern, phrase)
            if match is not None:
                take(match, fields)
                break
        else:
            raise Unclear(f"{about}: what does {phrase!r} mean? see tests/scenarios/README.md")
    return fields


def sets(**given: Any) -> Callable[[re.Match[str], Fields], None]:
    """Fields of fixed values; a value that is a number in braces is that group of the match."""

    def take(match: re.Match[str], fields: Fields) -> None:
        for name, value in given.items():
            fields[name] = value(match) if callable(value) else value

    return take


def number(group: int) -> Callable[[re.Match[str]], int | float]:
    """That group as a number."""
    return lambda match: float(match[group]) if "." in match[group] else int(match[group])


def text(group: int) -> Callable[[re.Match[str]], str]:
    """That group as it stands."""
    return lambda match: match[group]


def _label(match: re.Match[str], fields: Fields) -> None:
    fields.setdefault("labels", {})[match[1]] = match[2]


AMOUNT = r"([0-9]+(?:\.[0-9]+)?)"
MEMORY = r"([0-9]+ ?[KMGT]i?B)"
LABEL = (r"([-a-z0-9./]+)=([-A-Za-z0-9._]+)", _label)

NODE: list[Phrase] = [
    (r"devices ((?:[-a-z0-9]+(?::[-a-z0-9.]+)?(?: |$))+)", lambda match, fields: _devices(match, fields)),
    (rf"{AMOUNT} gpus?", sets(gpus=number(1))),
    (rf"{AMOUNT} cpus?", sets(cpus=number(1))),
    (MEMORY, sets(memory=text(1))),
    (r"model ([-A-Za-z0-9]+)", sets(gpu_model=text(1))),
    (rf"{MEMORY} each gpu", sets(gpu_memory=text(1))),
    (r"at most ([0-9]+) tasks?", sets(max_tasks=number(1))),
    (r"drained", sets(drained=True)),
    LABEL,
]


def nodes(written: Mapping[str, Any]) -> list[Fields]:
    """`n1: 8 gpus`, `n1..n4: 8 gpus, rack=r1`, or the snapshot's own fields."""
    found: list[Fields] = []
    for names, value in written.items():
        fields = phrases(value, NODE, f"node {names}") if isinstance(value, str) else dict(value or {})
        found += [{"name": name, **fields} for name in _names(str(names))]
    return found


def _names(text_: str) -> list[str]:
    match = re.fullmatch(r"(.*?)([0-9]+)\.\.\1([0-9]+)", text_)
    return [f"{match[1]}{each}" for each in range(int(match[2]), int(match[3]) + 1)] if match else [text_]


# --- projects


def _bound(kind: str) -> Callable[[re.Match[str], Fields], None]:
    def take(match: re.Match[str], fields: Fields) -> None:
        bounds = fields.setdefault(kind, {})
        for part in re.split(r" \+ ", match[1]):
            name, amount = _amount(part)
            bounds[name] = amount

    return take


def _amount(part: str) -> tuple[str, Any]:
    if part == "none":
        return "gpus", -1
    match = re.fullmatch(rf"(-1|{AMOUNT})( gpus?| cpus?)?", part)
    if match is not None:
        value = float(match[1]) if "." in match[1] else int(match[1])
        return ("cpus" if (match[3] or "").strip().startswith("cpu") else "gpus"), value
    return "memory", part


BOUND = r"((?:none|-1|[0-9.]+)[-A-Za-z0-9. +]*)"
PROJECT: list[Phrase] = [
    (rf"quota {BOUND}", _bound("quota")),
    (rf"limit {BOUND}", _bound("limit")),
    (r"weight ([0-9]+)", sets(over_quota_weight=number(1))),
    (r"priority (-?[0-9]+)", sets(priority=number(1))),
    (r"under ([-a-z0-9]+)", sets(parent=text(1))),
    (r"since ([0-9]+)", sets(created=number(1))),
]


def projects(written: Mapping[str, Any]) -> list[Fields]:
    """`a: quota 4, limit 8, weight 2, priority 1, under dept`, or the policy's own fields."""
    return [
        {"name": name, **(phrases(value, PROJECT, f"project {name}") if isinstance(value, str) else value or {})}
        for name, value in written.items()
    ]


# --- jobs


def _standing(match: re.Match[str], fields: Fields) -> None:
    word = match[1] or "running"
    fields["state"] = {"stuck": "stuck_releasing"}.get(word, word)
    fields["on"] = match[2].split()


def _times(unit: str) -> Callable[[re.Match[str], Fields], None]:
    def take(match: re.Match[str], fields: Fields) -> None:
        if match[1]:
            fields["tasks"] = int(match[1])
        amount = float(match[2]) if "." in match[2] else int(match[2])
        fields[unit] = amount

    return take


def _mig(match: re.Match[str], fields: Fields) -> None:
    fields["mig"] = match[2]
    if match[1]:
        fields["tasks"] = int(match[1])


def _devices(match: re.Match[str], fields: Fields) -> None:
    """`devices a:1 b:1 c:3g.40gb`: each with its island or its MIG profile."""
    listed = [each.partition(":") for each in match[1].split()]
    fields["devices"] = [
        {"id": name, **({"mig": kind} if kind[:1].isdigit() else {"island": kind} if kind else {})} for name, _, kind in listed
    ]


AGO = r"((?:[0-9]+(?:us|ms|s|m|h|d)) ago)"
JOB: list[Phrase] = [
    (rf"(?:([0-9]+) x )?{AMOUNT} gpus?", _times("gpus")),
    (rf"(?:([0-9]+) x )?{AMOUNT} cpus?", _times("cpus")),
    (r"([0-9]+) tasks?", sets(tasks=number(1))),
    (rf"{MEMORY} of (?:a|each of ([0-9]+)) gpus?", sets(gpu_memory=text(1), gpu_devices=lambda match: int(match[2] or 1))),
    (rf"{AMOUNT} of each of ([0-9]+) gpus", sets(fraction=number(1), gpu_devices=number(2))),
    (MEMORY, sets(memory=text(1))),
    (r"(?:([0-9]+) x )?([1-7]g\.[0-9]+gb)", _mig),
    (r"prefers nvlink", sets(placement="prefer nvlink")),
    (rf"({'|'.join(CLASSES)})", sets(**{"class": text(1)})),
    (r"class ([-a-z0-9]+)", sets(**{"class": text(1)})),
    (r"priority (-?[0-9]+)", sets(priority=number(1))),
    (r"in ([-a-z0-9]+)", sets(project=text(1))),
    (r"min ([0-9]+)", sets(min_tasks=number(1))),
    (r"(?:(running|reserved|releasing|stuck) )?on ([-a-z0-9 ]+)", _standing),
    (r"only on ([-a-z0-9 ]+)", sets(nodes=lambda match: match[1].split())),
    (r"model ([-A-Za-z0-9]+)", sets(gpu_models=text(1))),
    (r"device ([-A-Za-z0-9 ]+)", sets(devices=lambda match: match[1].split())),
    (r"paused", sets(paused=True)),
    (r"preemptible", sets(preemptible=True)),
    (r"not preemptible", sets(preemptible=False)),
    (rf"submitted {AGO}", sets(submitted=text(1))),
    (rf"started {AGO}", sets(last_start=text(1))),
    (rf"checkpoint {AGO}", sets(last_checkpoint=text(1))),
    (rf"stale since {AGO}", sets(stale_since=text(1))),
    (rf"evicted {AGO}", lambda match, fields: fields.setdefault("evicted_at", []).append(match[1])),
    (r"delay ([0-9]+(?:us|ms|s|m|h|d))", sets(preemption_delay=text(1))),
    (r"grace ([0-9]+(?:us|ms|s|m|h|d))", sets(grace=text(1))),
    (r"ends within ([0-9]+(?:us|ms|s|m|h|d))", sets(run_time_limit=text(1))),
    (r"ends when evicted", sets(on_eviction="end")),
    (r"spread", sets(pack="spread")),
    LABEL,
]


def jobs(written: Mapping[str, Any]) -> list[Fields]:
    """`night: train, 4 x 2 gpus, on n1`; `{is: <that>, ...}` adds fields of the snapshot; or these alone."""
    return [job(str(name), value) for name, value in written.items()]


def job(name: str, value: Any) -> Fields:
    """One job's fields in a snapshot."""
    if isinstance(value, str):
        fields = phrases(value, JOB, f"job {name}")
    else:
        fields = dict(value or {})
        fields = {**phrases(fields.pop("is", ""), JOB, f"job {name}"), **fields}
    on = fields.pop("on", None)
    if on is not None:
        state = fields.pop("state")
        fields["tasks"] = _dealt(fields.get("tasks", 1), on, state, name)
    return {"name": name, **fields}


def _dealt(tasks: Any, on: list[str], state: str, name: str) -> list[Fields]:
    """Tasks in equal blocks on the nodes: `4 x 2 gpus, on n1 n2` puts two on each."""
    if isinstance(tasks, list):
        raise Unclear(f"job {name}: says `on` and lists its tasks; write the node of each task in the list")
    if tasks % len(on):
        raise Unclear(f"job {name}: {tasks} tasks do not come out even on {len(on)} nodes")
    block = tasks // len(on)
    found: list[Fields] = []
    for node in on:
        if found and found[-1]["node"] == node:
            found[-1]["count"] += block
        else:
            found.append({"count": block, "node": node, "state": state})
    return found


# --- what is expected


def expected(text_: str) -> list[tuple[int | None, str, list[str]]]:
    """`4 running on n1 n2, 2 pending` as (how many or all, state, nodes)."""
    found = []
    for phrase in (part.strip() for part in text_.split(",")):
        match = re.fullmatch(rf"(?:([0-9]+) )?({'|'.join(STATES)})(?: on (.+))?", phrase)
        if match is None:
            raise Unclear(f"expected a state such as `evicted`, `4 running on n1` or `reserved on n1|n2`, found {phrase!r}")
        found.append((int(match[1]) if match[1] else None, match[2], (match[3] or "").split()))
    return found
